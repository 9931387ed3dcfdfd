package store

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
)

// SweepAge is the age at which a work folder counts as left behind by a process that was killed. A run writes to its
// folder at the end of each step, which takes minutes.
const SweepAge = 24 * time.Hour

// tempPrefix begins the names of all files and folders in the folder for temporary files.
const tempPrefix = "rfbeam-"

// WorkDir makes a folder for intermediate results beside an output. It removes such folders of runs that were killed,
// if nothing in them is younger than [SweepAge].
func WorkDir(ctx context.Context, out string) (dir string, err error) {
	folder, base := Split(out)
	prefix := "." + base + ".work-"
	if Remote(out) {
		sweepObjects(ctx, folder, prefix)
		// The random name does not enter any result, so it needs no seed.
		return Join(folder, fmt.Sprintf("%s%016x", prefix, rand.Uint64())), nil
	}
	sweep(folder, prefix)
	if dir, err = os.MkdirTemp(folder, prefix+"*"); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777) // workers may run as other users
}

// SweepTemp removes what killed processes left in the folder for temporary files.
func SweepTemp() { sweep(os.TempDir(), tempPrefix) }

// sweep removes the entries of a folder whose names begin with prefix and that have nothing younger than SweepAge in
// them. What cannot be removed stays: nothing depends on it.
func sweep(folder, prefix string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		name, young := filepath.Join(folder, e.Name()), false
		err := filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && time.Since(info.ModTime()) < SweepAge {
				young = true
				return filepath.SkipAll
			}
			return err
		})
		if err == nil && !young {
			os.RemoveAll(name)
		}
	}
}

// sweepObjects is sweep for the objects below the folders prefix* of a folder.
func sweepObjects(ctx context.Context, folder, prefix string) {
	s, err := system(ctx, folder)
	if err != nil {
		return
	}
	ages, ok := s.(filesystem.LastModifiedGetter)
	if !ok || strings.ContainsAny(prefix, "*?[\\") {
		return
	}
	objects := map[string][]string{} // by folder
	for _, below := range []string{"*/*", "*/*/*"} {
		names, err := List(ctx, Join(folder, prefix)+below)
		if err != nil {
			return
		}
		for _, name := range names {
			work, _, _ := strings.Cut(name[len(folder)+1:], "/")
			objects[work] = append(objects[work], name)
		}
	}
	for _, names := range objects {
		if allOld(ctx, ages, names) {
			for _, name := range names {
				_ = Remove(ctx, name)
			}
		}
	}
}

func allOld(ctx context.Context, ages filesystem.LastModifiedGetter, names []string) bool {
	for _, name := range names {
		at, err := ages.LastModified(ctx, escaped(name))
		if err != nil || time.Since(at) < SweepAge {
			return false
		}
	}
	return true
}
