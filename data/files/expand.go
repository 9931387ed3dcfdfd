package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
)

// Expand lists the files that arguments name. A pattern (*, ?, [a-z]) stands for the files that match it, a directory
// for the tables in it: files whose name ends as that of a known format, without those that begin with a dot or an
// underscore, of one format. Both come sorted by name, byte by byte. Other arguments stand for themselves, even if no
// such file exists. A file that comes twice is an error.
func Expand(args ...string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, arg := range args {
		paths, err := expand(arg)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if clean := filepath.Clean(p); seen[clean] {
				return nil, &data.InputError{Place: p, Detail: "the file is named twice: its rows would count twice"}
			} else {
				seen[clean] = true
			}
		}
		out = append(out, paths...)
	}
	return out, nil
}

func expand(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return directory(arg)
	case err == nil || !strings.ContainsAny(arg, "*?["):
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	paths, err := filepath.Glob(arg)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s: %w", arg, err)
	}
	if len(paths) == 0 {
		return nil, &data.InputError{Place: arg, Detail: "no file matches the pattern", Err: fs.ErrNotExist}
	}
	slices.Sort(paths)
	return paths, nil
}

// directory lists the tables of a directory.
func directory(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || name[0] == '.' || name[0] == '_' || data.FormatOf(name) == "" {
			continue
		}
		paths = append(paths, filepath.Join(dir, name))
	}
	if len(paths) == 0 {
		return nil, &data.InputError{Place: dir, Detail: "no tables in the directory: want files that end in .csv, .tsv, " +
			".ndjson, .parquet, .npy or .npz, perhaps with .gz"}
	}
	slices.Sort(paths)
	for _, p := range paths[1:] {
		if data.FormatOf(p) != data.FormatOf(paths[0]) {
			return nil, &data.InputError{Place: dir,
				Detail: fmt.Sprintf("tables of several formats, such as %s and %s: name those that are meant by a pattern",
					filepath.Base(paths[0]), filepath.Base(p))}
		}
	}
	return paths, nil
}
