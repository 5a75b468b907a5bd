"""A process beside a worker that decodes strangers' files in a sandbox; the worker fetches and stores."""
