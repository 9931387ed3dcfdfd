package cli

import (
	"encoding/json"
	"io"

	"github.com/randfeat/randfeat/internal/localfile"
)

// Outputs are files that appear together. Each is written to a temporary file beside its path, and Commit moves
// them into place after all are complete. A process that is killed before Commit leaves no file at these paths.
//
// Use: defer Abort, Create each file, write, Commit.
type Outputs struct{ files []*localfile.File }

// Create opens a file, or returns stdout for -.
func (o *Outputs) Create(path string, env *Env) (io.Writer, error) {
	if path == "-" {
		return env.Results()
	}
	f, err := localfile.Create(path)
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	return f, nil
}

// JSON writes v as one line to a file of the group.
func (o *Outputs) JSON(path string, v any) error {
	w, err := o.Create(path, nil)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Commit moves the files into place, one after the other. If a rename fails, earlier files stay.
func (o *Outputs) Commit() error {
	for _, f := range o.files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// Abort removes the files that have not been moved into place. After Commit it does nothing.
func (o *Outputs) Abort() {
	for _, f := range o.files {
		f.Abort()
	}
}
