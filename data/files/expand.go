package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
)

// Expand lists the files that arguments name, in the order of the rows:
//
//   - A pattern (*, ?, [a-z]) stands for the files and folders that match it.
//   - A folder stands for the tables in it and in its folders named column=value: files with the extension of
//     a known format, all of one format.
//   - Any other argument stands for itself, even if no such file exists.
//
// Names that begin with a dot or an underscore, such as Spark's _SUCCESS, are left out unless a pattern asks
// for them. Files of a pattern or a folder are sorted by name, byte by byte. A file that occurs twice is an
// error, because its rows would count twice.
func Expand(args ...string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, arg := range args {
		paths, err := expand(arg)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			clean := p
			if !inStore(p) {
				clean = filepath.Clean(p)
			}
			if seen[clean] {
				return nil, &data.InputError{Place: p, Detail: "the file is named twice: its rows would count twice"}
			}
			seen[clean] = true
		}
		out = append(out, paths...)
	}
	return out, nil
}

func expand(arg string) ([]string, error) {
	store, err := storeOf(arg)
	if err != nil {
		return nil, err
	}
	if store != nil {
		return objects(store, arg)
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return directory(arg)
	case err == nil || !strings.ContainsAny(arg, "*?["):
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	found, err := filepath.Glob(arg)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s: %w", arg, err)
	}
	slices.Sort(found)
	var paths []string
	for _, p := range found {
		name := filepath.Base(p)
		if hidden(name) && !hidden(filepath.Base(arg)) {
			continue
		}
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			paths = append(paths, p)
			continue
		}
		below, err := directory(p)
		if err != nil {
			return nil, err
		}
		paths = append(paths, below...)
	}
	if len(paths) == 0 {
		return nil, &data.InputError{Place: arg, Detail: "no file matches the pattern", Err: fs.ErrNotExist}
	}
	return paths, nil
}

// hidden reports whether a file or a folder is not part of a table, by its name.
func hidden(name string) bool { return name[0] == '.' || name[0] == '_' }

// directory lists the tables of a directory.
func directory(dir string) ([]string, error) {
	var paths []string
	var walk func(dir string) error
	walk = func(dir string) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			switch {
			case hidden(e.Name()):
			case e.IsDir():
				if partition(e.Name()) {
					err = walk(p)
				}
			case data.FormatOf(e.Name()) != "":
				paths = append(paths, p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(dir); err != nil {
		return nil, err
	}
	return tables(dir, paths)
}

// partition reports whether the name of a folder is column=value.
func partition(name string) bool { return strings.IndexByte(name, '=') > 0 }

// tables sorts the files of a folder, which must have one format.
func tables(dir string, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, &data.InputError{Place: dir, Detail: "no tables in the directory: want files that end in .csv, .tsv, " +
			".ndjson, .parquet, .npy, .npz or .xlsx, perhaps with .gz, .zst, .bz2 or .zip"}
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

// objects lists the tables that a name in a store stands for: an object, a pattern, or a folder.
func objects(store Store, arg string) ([]string, error) {
	pattern := strings.ContainsAny(arg, "*?[")
	if !strings.HasSuffix(arg, "/") {
		found, err := store.List(arg)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(p string) bool { return hidden(path.Base(p)) && !hidden(path.Base(arg)) })
		if slices.Sort(found); len(found) > 0 {
			return found, nil
		}
		arg += "/"
	}
	found, err := store.List(arg)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range found {
		dirs := strings.Split(p, "/")[strings.Count(arg, "/"):]
		name := dirs[len(dirs)-1]
		below := !slices.ContainsFunc(dirs[:len(dirs)-1], func(d string) bool { return !partition(d) || hidden(d) })
		if name != "" && !hidden(name) && below && data.FormatOf(name) != "" {
			paths = append(paths, p)
		}
	}
	if pattern && len(paths) == 0 {
		return nil, &data.InputError{Place: strings.TrimSuffix(arg, "/"), Detail: "no object matches the pattern",
			Err: fs.ErrNotExist}
	}
	return tables(arg, paths)
}
