package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/randfeat/randfeat/beam/internal/store"
)

// turn lets one step at a time work in a process. A step already uses all threads, and so the process holds the data
// of one step only, however many the runner starts at once.
var turn = make(chan struct{}, 1)

// step does the work of one step, exactly once as far as its result is concerned. If the note of its file exists,
// the step was done before: step does nothing and returns the content of the note. Otherwise it runs do, writes the
// note, and removes the inputs. The order matters: a crash before the note repeats the step with its inputs still
// there.
func (j Job) step(ctx context.Context, stage string, level, index int, in []Ref, do func(Work, string) (int64, error),
) (ref Ref, err error) {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return Ref{}, ctx.Err()
	}
	defer func() { <-turn }()
	file := store.Join(j.Dir, stage, fmt.Sprintf("%d-%06d", level, index))
	if ref, ok, err := done(ctx, file); ok || err != nil {
		return ref, err
	}
	w, err := j.work()
	if err != nil {
		return Ref{}, err
	}
	if err := store.MkdirAll(store.Join(j.Dir, stage)); err != nil {
		return Ref{}, err
	}
	rows, err := do(w, file)
	if err != nil {
		// Another worker may have finished the same step and removed the inputs of this one.
		if ref, ok, _ := done(ctx, file); ok {
			return ref, nil
		}
		return Ref{}, err
	}
	ref = Ref{Index: index, File: file, Rows: rows}
	if err := ref.write(ctx); err != nil {
		return Ref{}, err
	}
	for _, r := range in {
		if err := store.Remove(ctx, r.File); err != nil {
			return Ref{}, err
		}
	}
	return ref, nil
}

// doneSuffix marks the note beside a file. The note says that the file is complete, and it stays when the file is
// removed: a step that is repeated after its successor has nothing to do.
const doneSuffix = ".done"

// write writes the note of a step.
func (r Ref) write(ctx context.Context) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return store.WriteFile(ctx, r.File+doneSuffix, b)
}

// done reads the note of a step; ok is false if there is none.
func done(ctx context.Context, file string) (ref Ref, ok bool, err error) {
	b, err := store.ReadFile(ctx, file+doneSuffix)
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
