package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/beam/flow"
)

// squares adds i² over its leaves. Its fields travel to the workers.
type squares struct{ Out string }

func init() {
	flow.Register("squares", func(config []byte) (flow.Work, error) {
		w := &squares{}
		return w, json.Unmarshal(config, w)
	})
}

func (*squares) Leaf(_ context.Context, _ string, i int, file string) (int64, error) {
	return 1, put(file, i*i)
}

func (*squares) Merge(_ context.Context, _ string, _ int, file string, in []flow.Ref) (rows int64, err error) {
	total, rows, err := sum(in)
	if err != nil {
		return 0, err
	}
	return rows, put(file, total)
}

func (w *squares) End(_ context.Context, _ string, in []flow.Ref) error {
	total, _, err := sum(in)
	if err != nil {
		return err
	}
	return put(w.Out, total)
}

// put writes a file that appears in one step.
func put(file string, v int) error {
	temp, err := os.CreateTemp(filepath.Dir(file), "temp-*")
	if err != nil {
		return err
	}
	if _, err = fmt.Fprint(temp, v); err != nil {
		return err
	}
	if err = temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

func sum(in []flow.Ref) (total int, rows int64, err error) {
	for _, r := range in {
		b, err := os.ReadFile(r.File)
		if err != nil {
			return 0, 0, err
		}
		var v int
		if _, err = fmt.Sscan(string(b), &v); err != nil {
			return 0, 0, err
		}
		total, rows = total+v, rows+r.Rows
	}
	return total, rows, nil
}

// Ten leaves are added on Beam's embedded runner, three files at a time. A program calls Worker first and Run then.
func Example() {
	dir, err := os.MkdirTemp("", "squares-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	work := squares{Out: filepath.Join(dir, "total")}
	config, _ := json.Marshal(work)
	job := flow.Job{Kind: "squares", Config: config, Dir: filepath.Join(dir, "work"), Fan: 3}
	if err := os.Mkdir(job.Dir, 0o777); err != nil {
		panic(err)
	}
	if err := flow.Run(context.Background(), job, []flow.Stage{{Name: "add", Leaves: 10}}); err != nil {
		panic(err)
	}
	total, err := os.ReadFile(work.Out)
	fmt.Println(string(total), err)
	// Output: 285 <nil>
}
