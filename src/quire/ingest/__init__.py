"""The batch upload protocol: uploads, finalization, archiving and cleaning. Must not know: HTTP."""
