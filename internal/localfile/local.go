// Package localfile writes files of the file system atomically, compares them, and refuses paths of other
// stores. All programs write results through it: Create, Write, Commit; a deferred Abort cleans up after
// errors.
package localfile

import (
	"fmt"
	"strings"
)

// Scheme returns the part before :// of a path, such as s3; "" for a path of the file system.
func Scheme(path string) string {
	scheme, _, ok := strings.Cut(path, "://")
	for i, r := range scheme {
		if letter := r|0x20 >= 'a' && r|0x20 <= 'z'; !letter && (i == 0 || !strings.ContainsRune("0123456789+.-", r)) {
			return ""
		}
	}
	if !ok {
		return ""
	}
	return strings.ToLower(scheme)
}

// Check refuses paths such as s3://bucket/part.csv with an error that names the remedy.
func Check(path string) error {
	if why := Remote(path); why != "" {
		return fmt.Errorf("%s: %s", path, why)
	}
	return nil
}

// Remote explains why a path cannot be used here; "" for paths of the file system.
func Remote(path string) string {
	switch scheme := Scheme(path); scheme {
	case "":
		return ""
	case "s3", "gs":
		return "this program reads and writes local files only: use rfbeam, which reads and writes s3:// and gs://, or " +
			"copy the files to a folder"
	default:
		return "this program reads and writes local files only, not " + scheme + "://: copy the files to a folder"
	}
}
