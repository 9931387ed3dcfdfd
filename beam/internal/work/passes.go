package work

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/randfeat/randfeat/beam/internal/flow"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine/parts"
)

// passes are the stages of a work that are steps of a run: every leaf writes parts, which merge.
type passes struct {
	run  *parts.Run
	span int // leaves of the run that one leaf of a stage takes
	open func(stage string) (*parts.Step, error)

	mu    sync.Mutex
	steps map[string]*parts.Step
}

// step is that of a stage.
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

// Leaf reads some leaves of the run.
func (p *passes) Leaf(ctx context.Context, stage string, i int, file string) (int64, error) {
	s, err := p.step(stage)
	if err != nil {
		return 0, err
	}
	span := parts.Span{Lo: i * p.span, Hi: min((i+1)*p.span, p.run.Leaves())}
	return writeParts(file, func(emit func(*parts.Part) error) error { return s.Do(ctx, span, emit) })
}

// writeParts writes a file of parts.
func writeParts(file string, make func(emit func(*parts.Part) error) error) (rows int64, err error) {
	out, err := data.CreateAtomic(file)
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
	return writeParts(file, func(emit func(*parts.Part) error) error {
		for _, part := range merged {
			if err := emit(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// merge reads the parts of files one at a time: two are in memory, what the first ones have become and the next.
func merge(ctx context.Context, s *parts.Step, in []flow.Ref) (merged []*parts.Part, err error) {
	for _, r := range in {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		merged, err = mergeFile(s, merged, r.File)
		if err != nil {
			return nil, err
		}
	}
	return merged, nil
}

func mergeFile(s *parts.Step, merged []*parts.Part, file string) ([]*parts.Part, error) {
	f, err := os.Open(file)
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

// whole is the part of all leaves.
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
