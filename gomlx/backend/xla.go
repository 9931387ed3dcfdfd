//go:build cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64))

package backend

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/go-xla/compute/xla"
)

const missing = "for a GPU install a PJRT plugin (gomlx/README.md)"

// A program that starts must not download anything. Users install plugins themselves.
func init() { xla.EnableAutoInstall(false) }

// plugins lists the plugins found in the folders where go-xla looks for them, the GPU first.
func plugins() []string {
	var found []string
	for _, name := range []string{"cuda", "cpu"} {
		for _, dir := range folders() {
			match, _ := filepath.Glob(filepath.Join(dir, "pjrt_c_api_"+name+"*_plugin.so"))
			if len(match) > 0 {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

func folders() []string {
	dirs := strings.Split(os.Getenv("PJRT_PLUGIN_LIBRARY_PATH"), string(os.PathListSeparator))
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local/lib/go-xla"), filepath.Join(home, ".local/lib/gomlx/pjrt"))
	}
	return append(dirs, "/usr/local/lib/go-xla", "/usr/local/lib/gomlx/pjrt")
}
