"""Where steps run: worker processes that come and go. The conductor's view of it is `quire.model.work.Compute`."""
