package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
)

// turn lets one step at a time work in a process: a step uses all threads, and so a process holds what one step holds,
// however many the runner begins at once.
var turn = make(chan struct{}, 1)

// step does something once: if its file has been written it says so, and does nothing.
func (j Job) step(ctx context.Context, stage string, level, index int, in []Ref, do func(Work, string) (int64, error),
) (ref Ref, err error) {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return Ref{}, ctx.Err()
	}
	defer func() { <-turn }()
	file := filepath.Join(j.Dir, stage, fmt.Sprintf("%d-%06d", level, index))
	if ref, ok, err := done(file); ok || err != nil {
		return ref, err
	}
	w, err := j.work()
	if err != nil {
		return Ref{}, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return Ref{}, err
	}
	rows, err := do(w, file)
	if err != nil {
		// Another worker may have been faster, and have removed what this one was reading.
		if ref, ok, _ := done(file); ok {
			return ref, nil
		}
		return Ref{}, err
	}
	ref = Ref{Index: index, File: file, Rows: rows}
	if err := ref.write(); err != nil {
		return Ref{}, err
	}
	for _, r := range in {
		if err := os.Remove(r.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Ref{}, err
		}
	}
	return ref, nil
}

// The note beside a file says that it is whole, and stays when the file is removed: a step that is run again after its
// successor was done has nothing to do.
const doneSuffix = ".done"

func (r Ref) write() error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return data.WriteAtomic(r.File+doneSuffix, b)
}

func done(file string) (ref Ref, ok bool, err error) {
	b, err := os.ReadFile(file + doneSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return ref, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &ref)
	}
	if err != nil {
		return ref, false, fmt.Errorf("note of a step that was done: %w", err)
	}
	return ref, true, nil
}
