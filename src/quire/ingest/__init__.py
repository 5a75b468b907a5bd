"""Files arrive over HTTP: the use cases of the batch upload protocol. Must not know: HTTP."""
