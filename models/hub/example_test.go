package hub_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/models/hub"
)

// Names stand for models that were downloaded.
func ExamplePath() {
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("RFM_MODELS", dir)
	defer os.Unsetenv("RFM_MODELS")
	os.MkdirAll(filepath.Join(dir, "owner", "name"), 0o700)
	os.WriteFile(filepath.Join(dir, "owner", "name", "config.json"), []byte("{}"), 0o600) // what Pull leaves
	path, err := hub.Path("name")
	fmt.Println(filepath.Base(path), err)
	// Output: name <nil>
}
