package work

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/randfeat/randfeat/beam/flow"
	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
)

func init() {
	flow.Register("predict", func(config []byte) (flow.Work, error) { return openPredict(config) })
}

const stagePredict = "predict"

// predictConfig is the message to workers, as JSON.
type predictConfig struct {
	Files  *files.Manifest      `json:"files"`
	Dir    string               `json:"dir"`
	Model  string               `json:"model"`
	Out    string               `json:"out"`
	Format data.Format          `json:"format"`
	Table  machine.TableOptions `json:"table"`
	Leaves []parts.Span         `json:"leaves"` // units of each leaf
	Groups []int                `json:"groups"` // input file of each leaf
}

// predict writes one table of predictions for every input file.
type predict struct {
	predictConfig
	run *parts.Run

	mu sync.Mutex
	p  *machine.TablePredictor
}

func openPredict(config []byte) (*predict, error) {
	p := new(predict)
	if err := json.Unmarshal(config, &p.predictConfig); err != nil {
		return nil, err
	}
	var err error
	p.run, err = parts.NewRun(p.Files, parts.Options{})
	return p, err
}

// Shard is an input file and its predictions.
type Shard struct {
	Input string `json:"input"`
	File  string `json:"file"` // relative to the folder of predictions
	Rows  int64  `json:"rows"`
}

// Predictions lists the files that Predict wrote, in the order of the input.
type Predictions struct {
	Rows   int64   `json:"rows"`
	Shards []Shard `json:"shards"`
}

// PredictionsFile is the last file that Predict writes into the folder: [Predictions] as JSON.
const PredictionsFile = "predictions.json"

// Predict predicts the files of a table with a model and writes one CSV or Parquet file per input file into a
// folder. A file has the id columns of the model that the input has, then the predictions, in the order of the input
// rows. Nothing appears in the folder before all predictions are complete.
func Predict(ctx context.Context, m *files.Manifest, dir, model, out string, format data.Format,
	o machine.TableOptions) (*Predictions, error) {
	c := predictConfig{Files: m, Dir: dir, Model: model, Out: out, Format: format, Table: o}
	units := 0
	for i, s := range m.Shards {
		// CSV files can be concatenated, so every unit is a leaf. Parquet files cannot: a leaf is a whole file.
		if format == data.Parquet {
			c.Leaves, c.Groups = append(c.Leaves, parts.Span{Lo: units, Hi: units + s.Blocks}), append(c.Groups, i)
		} else {
			for u := range s.Blocks {
				c.Leaves, c.Groups = append(c.Leaves, parts.Span{Lo: units + u, Hi: units + u + 1}), append(c.Groups, i)
			}
		}
		units += s.Blocks
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	err = flow.Run(ctx, flow.Job{Kind: "predict", Config: config, Dir: dir, Fan: par.Fan},
		[]flow.Stage{{Name: stagePredict, Leaves: len(c.Leaves), Groups: c.Groups}})
	if err != nil {
		return nil, err
	}
	b, err := store.ReadFile(ctx, store.Join(out, PredictionsFile))
	if err != nil {
		return nil, err
	}
	result := new(Predictions)
	return result, json.Unmarshal(b, result)
}

// Load reads a model from a file or an object.
func Load(ctx context.Context, path string) (*machine.Model, error) {
	local, done, err := store.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := machine.Load(local)
	if err != nil && local != path {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return m, err
}

// predictor returns the predictor of the model, made at its first use.
func (p *predict) predictor() (*machine.TablePredictor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p != nil {
		return p.p, nil
	}
	m, err := Load(context.Background(), p.Model)
	if err == nil {
		p.p, err = machine.NewTablePredictor(m, p.Table)
	}
	return p.p, err
}

// columns returns the columns of the output: the ids, then the predictions.
func (p *predict) columns() ([]string, []data.Kind, error) {
	t, err := p.predictor()
	if err != nil {
		return nil, nil, err
	}
	run, err := t.Open(p.Files.Columns)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.run.Name(), err)
	}
	names, kinds := t.Columns()
	ids := run.IDs()
	columns, all := append([]string{}, ids...), make([]data.Kind, len(ids), len(ids)+len(kinds))
	for i := range ids {
		all[i] = data.Text
	}
	return append(columns, names...), append(all, kinds...), nil
}

// Leaf predicts the units of a leaf.
func (p *predict) Leaf(ctx context.Context, _ string, i int, file string) (rows int64, err error) {
	err = store.Put(ctx, file, func(local string) error {
		rows, err = p.leaf(ctx, i, local)
		return err
	})
	return rows, err
}

func (p *predict) leaf(ctx context.Context, i int, file string) (rows int64, err error) {
	t, err := p.predictor()
	if err != nil {
		return 0, err
	}
	columns, kinds, err := p.columns()
	if err != nil {
		return 0, err
	}
	w, err := files.Create(file, data.CSV, columns, kinds)
	if p.Format == data.Parquet {
		w, err = parquet.Create(file, columns, kinds)
	}
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	for u := p.Leaves[i].Lo; u < p.Leaves[i].Hi; u++ {
		n, err := p.run.Predict(ctx, t, u, func(_ []string, _ []data.Kind, b *data.Block) error {
			return w.WriteBlock(b)
		})
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, w.Close()
}

// Merge concatenates the pieces of a file. All but the first lose their header line.
func (p *predict) Merge(ctx context.Context, _ string, shard int, file string, in []flow.Ref) (rows int64, err error) {
	err = store.Put(ctx, file, func(local string) error {
		rows, err = p.merge(ctx, shard, local, in)
		return err
	})
	return rows, err
}

func (p *predict) merge(ctx context.Context, shard int, file string, in []flow.Ref) (rows int64, err error) {
	want := p.Files.Shards[shard].Blocks
	if p.Format == data.Parquet {
		want = 1
	}
	if len(in) != want {
		return 0, fmt.Errorf("%s: predictions of %d pieces, it has %d", p.Files.Shards[shard].Name, len(in), want)
	}
	columns, kinds, err := p.columns()
	if err != nil {
		return 0, err
	}
	var head bytes.Buffer
	w, err := files.NewWriter(&head, data.CSV, columns, kinds)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return 0, err
	}
	out, err := localfile.Create(file)
	if err != nil {
		return 0, err
	}
	defer out.Abort()
	b := bufio.NewWriterSize(out, 1<<16)
	for i, r := range in {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		skip := 0
		if i > 0 {
			skip = head.Len()
		}
		if err := appendFile(ctx, b, r.File, int64(skip)); err != nil {
			return 0, err
		}
		rows += r.Rows
	}
	if err := b.Flush(); err != nil {
		return 0, err
	}
	return rows, out.Commit()
}

func appendFile(ctx context.Context, w io.Writer, path string, skip int64) error {
	local, done, err := store.Get(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(skip, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// End moves the files to the output folder. A run that was interrupted here may have moved some already.
func (p *predict) End(ctx context.Context, _ string, in []flow.Ref) error {
	if err := store.MkdirAll(p.Out); err != nil {
		return err
	}
	var result Predictions
	for i, r := range in {
		ext := "csv"
		if p.Format == data.Parquet {
			ext = "parquet"
		}
		name := fmt.Sprintf("part-%05d-of-%05d.%s", i, len(in), ext)
		s := Shard{Input: p.Files.Shards[i].Name, File: name, Rows: r.Rows}
		to := store.Join(p.Out, s.File)
		if err := store.Rename(ctx, r.File, to); err != nil {
			if there, _ := store.Exists(ctx, to); !errors.Is(err, fs.ErrNotExist) || !there {
				return err
			}
		}
		result.Rows += s.Rows
		result.Shards = append(result.Shards, s)
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return store.WriteFile(ctx, store.Join(p.Out, PredictionsFile), b)
}
