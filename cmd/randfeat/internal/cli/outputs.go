package cli

import (
	"encoding/json"
	"io"

	"github.com/randfeat/randfeat/internal/localfile"
)

// Outputs are files that appear together: none is moved into place before all are complete.
type Outputs struct{ files []*localfile.File }

// Create opens a file, or returns stdout for -.
func (o *Outputs) Create(path string, stdout io.Writer) (io.Writer, error) {
	if path == "-" {
		return stdout, nil
	}
	f, err := localfile.Create(path)
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	return f, nil
}

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

func (o *Outputs) Commit() error {
	for _, f := range o.files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outputs) Abort() {
	for _, f := range o.files {
		f.Abort()
	}
}
