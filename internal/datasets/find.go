package datasets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// Find returns the set of a name; the error suggests a similar name.
func Find(name string) (Set, error) {
	all := List()
	names := make([]string, len(all))
	for i, s := range all {
		if names[i] = s.Name; s.Name == name {
			return s, nil
		}
	}
	hint := ""
	if near := similar.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return Set{}, fmt.Errorf("no data set %q: there are %s%s", name, strings.Join(names, ", "), hint)
}

// Lookup returns the file of a path, such as "abalone/abalone.data".
func Lookup(path string) (Set, File, error) {
	for _, s := range List() {
		if i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == path }); i >= 0 {
			return s, s.Files[i], nil
		}
	}
	return Set{}, File{}, fmt.Errorf("no data set has the file %q", path)
}
