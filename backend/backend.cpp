// Anchor of the library until its parts stand.
