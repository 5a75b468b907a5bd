"""The OCR service: pictures are read as envelopes and HTTP requests ask, with the step that pipelines use."""
