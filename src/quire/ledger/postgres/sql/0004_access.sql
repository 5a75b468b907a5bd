-- Who may come in, who wants to be told, and what is on its way to them.

-- Of a key only its hash is kept.
CREATE TABLE api_keys (
  no                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id                  text NOT NULL UNIQUE,
  label               text NOT NULL,
  hint                text NOT NULL,              -- how the key begins, for people to tell them apart
  hash                text NOT NULL UNIQUE,
  scope               text NOT NULL,
  tenant              text NOT NULL,
  created_at          double precision NOT NULL,
  expires_at          double precision,
  revoked_at          double precision,
  last_used_at        double precision,
  requests_per_minute bigint NOT NULL,            -- 0 is no limit, as of the following
  max_batches         bigint NOT NULL,
  max_bytes           bigint NOT NULL
);

CREATE TABLE hooks (
  no              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id              text NOT NULL UNIQUE,
  batch_no        bigint,                         -- NULL: of all batches
  url             text NOT NULL,
  secret          text NOT NULL,
  kinds           text[] NOT NULL,                -- empty is every kind
  created_at      double precision NOT NULL,
  disabled_at     double precision,
  disabled_reason text NOT NULL DEFAULT ''
);
-- Asked for every event of every batch.
CREATE INDEX hooks_batch ON hooks (batch_no, disabled_at);

-- One event on its way to one hook.
CREATE TABLE deliveries (
  no            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id            text NOT NULL UNIQUE,
  hook_no       bigint NOT NULL,
  batch_no      bigint NOT NULL,
  event_no      bigint NOT NULL,
  state         text NOT NULL DEFAULT 'waiting',  -- waiting, delivered, failed
  tries         bigint NOT NULL DEFAULT 0,
  next_at       double precision,                 -- of one that is being sent: the end of its lease
  last_status   bigint,
  last_error    text NOT NULL DEFAULT '',
  last_tried_at double precision,
  created_at    double precision NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (next_at, no) WHERE state = 'waiting';
CREATE INDEX deliveries_hook ON deliveries (hook_no, no);
CREATE INDEX deliveries_batch ON deliveries (batch_no, no);

CREATE VIEW hook_rows AS
SELECT h.id, h.url, h.secret, coalesce(b.id, '') AS batch_id, h.kinds, h.created_at, h.disabled_at,
       h.disabled_reason, h.no, h.batch_no
FROM hooks h LEFT JOIN batches b ON b.no = h.batch_no;

CREATE VIEW delivery_rows AS
SELECT d.no, d.id, h.id AS hook_id, b.id AS batch_id, d.event_no, e.type AS kind, e.at AS happened_at, e.data,
       d.state, d.tries, d.next_at, d.last_status, d.last_error, d.last_tried_at, d.created_at, d.hook_no, d.batch_no
FROM deliveries d JOIN hooks h ON h.no = d.hook_no JOIN batches b ON b.no = d.batch_no
                  JOIN events e ON e.no = d.event_no;
