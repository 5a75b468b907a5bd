// The engine of the original workers, as they use it: a JPEG of quality 95 of every TIFF, then the copies that are
// smaller than the picture. A path on each line of standard input, "done" on standard output.
import { createRequire } from "node:module";
import { basename, extname, join } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(join(process.argv[3], "package.json"));
const sharp = require("sharp");
sharp.cache(false);
sharp.concurrency(1);
const out = process.argv[2];

async function variants(path, name) {
  const { width, height } = await sharp(path).metadata();
  let source = path;
  for (const [role, side] of [["large", 2400], ["medium", 1288], ["thumb", 200]]) {
    if (Math.max(width, height) <= side) continue;
    const { data, info } = await sharp(source.data ?? source, source.data ? { raw: source.info } : { failOn: "error" })
      .rotate()
      .resize({ width: side, height: side, fit: "inside", withoutEnlargement: true })
      .raw()
      .toBuffer({ resolveWithObject: true });
    source = { data, info: { width: info.width, height: info.height, channels: info.channels } };
    await sharp(data, { raw: source.info }).jpeg({ quality: 85 }).toFile(join(out, `${name}.${role}.jpg`));
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let path = line, name = basename(line);
  if (extname(name) === ".tif") {
    name = basename(name, ".tif") + ".jpg";
    await sharp(path, { failOn: "error" }).jpeg({ quality: 95 }).toFile(join(out, name));
    path = join(out, name);
  }
  await variants(path, name);
  console.log("done");
}
