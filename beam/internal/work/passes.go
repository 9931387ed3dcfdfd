package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/randfeat/randfeat/beam/flow"
	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine/parts"
)

// passes implements flow.Work for stages that are steps of a run of machine/parts: every leaf writes parts, and
// merges combine them. It is one worker's view; steps are opened once per process.
type passes struct {
	config
	run  *parts.Run
	open func(stage string) (*parts.Step, error)

	mu    sync.Mutex
	steps map[string]*parts.Step
}

// config is the message to workers, as JSON.
type config struct {
	Run   json.RawMessage `json:"run"` // a parts.Run
	Dir   string          `json:"dir"`
	Model string          `json:"model"` // file to write, or to evaluate
	Span  int             `json:"span"`  // leaves of the run per leaf of a stage
}

// read fills p from the config that the worker received.
func (p *passes) read(config []byte, open func(stage string) (*parts.Step, error)) error {
	err := json.Unmarshal(config, &p.config)
	if err == nil {
		p.run, err = parts.ReadRun(p.Run)
	}
	p.open = open
	return err
}

// reportFile is where the last stage leaves its report as JSON.
func (c *config) reportFile() string { return store.Join(c.Dir, "report.json") }

func (c *config) report(ctx context.Context, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return store.WriteFile(ctx, c.reportFile(), b)
}

// Options say how to divide the work. Results do not depend on them.
type Options struct {
	// Tasks is the largest number of pieces of a pass over the table. Each piece leaves a file with its sums until
	// they are merged. 0 means 64.
	Tasks int
}

// span returns the number of leaves per piece: the smallest node size of the merge tree that gives at most Tasks
// pieces. Pieces must be whole nodes, so that the order of additions stays the same.
func (o Options) span(leaves int) int {
	tasks := o.Tasks
	if tasks <= 0 {
		tasks = 64
	}
	span := 1
	for (leaves+span-1)/span > tasks {
		span *= par.Fan
	}
	return span
}

// run runs stages on the runner of Beam's flags and reads the report of the last one.
func (o Options) run(ctx context.Context, kind string, run *parts.Run, dir, model string, report any,
	stages ...string) error {
	b, err := run.MarshalJSON()
	if err != nil {
		return err
	}
	c := config{Run: b, Dir: dir, Model: model, Span: o.span(run.Leaves())}
	if b, err = json.Marshal(c); err != nil {
		return err
	}
	var all []flow.Stage
	for _, name := range stages {
		all = append(all, flow.Stage{Name: name, Leaves: (run.Leaves() + c.Span - 1) / c.Span})
	}
	if err = flow.Run(ctx, flow.Job{Kind: kind, Config: b, Dir: dir, Fan: par.Fan}, all); err != nil {
		return err
	}
	if b, err = store.ReadFile(ctx, c.reportFile()); err == nil {
		err = json.Unmarshal(b, report)
	}
	return err
}

// step returns the step of a stage, opened at its first use.
func (p *passes) step(stage string) (*parts.Step, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.steps[stage]; ok {
		return s, nil
	}
	s, err := p.open(stage)
	if err != nil {
		return nil, err
	}
	if p.steps == nil {
		p.steps = map[string]*parts.Step{}
	}
	p.steps[stage] = s
	return s, nil
}

// Leaf sums Span leaves of the run.
func (p *passes) Leaf(ctx context.Context, stage string, i int, file string) (int64, error) {
	s, err := p.step(stage)
	if err != nil {
		return 0, err
	}
	span := parts.Span{Lo: i * p.Span, Hi: min((i+1)*p.Span, p.run.Leaves())}
	return writeParts(ctx, file, func(emit func(*parts.Part) error) error { return s.Do(ctx, span, emit) })
}

// writeParts writes the parts that make emits to a file and frees them.
func writeParts(ctx context.Context, file string, make func(emit func(*parts.Part) error) error) (rows int64,
	err error) {
	err = store.Put(ctx, file, func(local string) error {
		rows, err = writeLocal(local, make)
		return err
	})
	return rows, err
}

func writeLocal(file string, make func(emit func(*parts.Part) error) error) (rows int64, err error) {
	out, err := localfile.Create(file)
	if err != nil {
		return 0, err
	}
	defer out.Abort()
	w := bufio.NewWriterSize(out, 1<<16)
	err = make(func(p *parts.Part) error {
		rows += p.Rows()
		_, err := p.WriteTo(w)
		p.Free()
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return rows, out.Commit()
}

// Merge merges the children of a node.
func (p *passes) Merge(ctx context.Context, stage string, _ int, file string, in []flow.Ref) (int64, error) {
	s, err := p.step(stage)
	if err != nil {
		return 0, err
	}
	merged, err := merge(ctx, s, in)
	if err != nil {
		return 0, err
	}
	return writeParts(ctx, file, func(emit func(*parts.Part) error) error {
		for _, part := range merged {
			if err := emit(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// merge reads the parts of files one at a time. At most two are in memory: the merged one and the next.
func merge(ctx context.Context, s *parts.Step, in []flow.Ref) (merged []*parts.Part, err error) {
	for _, r := range in {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		merged, err = mergeFile(ctx, s, merged, r.File)
		if err != nil {
			return nil, err
		}
	}
	return merged, nil
}

func mergeFile(ctx context.Context, s *parts.Step, merged []*parts.Part, file string) ([]*parts.Part, error) {
	local, done, err := store.Get(ctx, file)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := os.Open(local)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		p, err := s.Read(r)
		if errors.Is(err, io.EOF) {
			return merged, nil
		}
		if err == nil {
			merged, err = s.Merge(append(merged, p))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
}

// whole merges the remaining parts into the part of all leaves.
func (p *passes) whole(ctx context.Context, stage string, in []flow.Ref) (*parts.Part, error) {
	s, err := p.step(stage)
	if err != nil {
		return nil, err
	}
	merged, err := merge(ctx, s, in)
	if err != nil {
		return nil, err
	}
	return s.Whole(merged)
}
