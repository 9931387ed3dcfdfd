package gguf

import "os"

// WriteTiny writes a small model.
func WriteTiny(path string) error { return os.WriteFile(path, tinyLlama(nil).bytes(), 0o600) }
