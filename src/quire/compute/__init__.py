"""Where steps run: worker processes that come and go. The port is `quire.model.work.Compute`."""
