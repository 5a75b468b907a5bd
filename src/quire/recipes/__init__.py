"""Recipe import: jobs that turn photos, pages and texts into recipe drafts."""
