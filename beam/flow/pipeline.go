package flow

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	beam.RegisterType(reflect.TypeFor[Ref]())
	register.DoFn2x0[[]byte, func(int)](&beginFn{})
	register.DoFn2x3[context.Context, int, int, Ref, error](&leafFn{})
	register.DoFn3x3[context.Context, int, func(*Ref) bool, int, Ref, error](&mergeFn{})
	register.DoFn4x1[context.Context, int, func(*Ref) bool, func(int), error](&endFn{})
	register.Emitter1[int]()
	register.Iter1[Ref]()
}

// build adds the stages of a job to a pipeline. There are no side inputs: the end step of a stage emits the numbers
// of the leaves of the next one, so a stage starts only after the one before has ended.
func build(s beam.Scope, j Job, stages []Stage) {
	leaves := beam.ParDo(s, &beginFn{Leaves: stages[0].Leaves}, beam.Impulse(s))
	for i, stage := range stages {
		s := s.Scope(stage.Name)
		left := beam.ParDo(s, &leafFn{Job: j, Stage: stage.Name, Groups: stage.Groups}, beam.Reshuffle(s, leaves))
		if stage.Groups != nil {
			left = beam.ParDo(s, &mergeFn{Job: j, Stage: stage.Name, Level: 1}, beam.GroupByKey(s, left))
		} else {
			for level, n := 1, stage.Leaves; n > 1; level++ {
				fn := &mergeFn{Job: j, Stage: stage.Name, Level: level, Fan: j.Fan}
				left = beam.ParDo(s, fn, beam.GroupByKey(s, left))
				n = (n + j.Fan - 1) / j.Fan
			}
		}
		end := &endFn{Job: j, Stage: stage.Name, Files: 1}
		if stage.Groups != nil {
			end.Files = 1 + slices.Max(stage.Groups)
		}
		if i+1 < len(stages) {
			end.Next = stages[i+1].Leaves
		}
		leaves = beam.ParDo(s, end, beam.GroupByKey(s, beam.ParDo(s, together, left)))
	}
}

// together gives all files the same key, so that one end step sees them.
func together(_ int, r Ref) (int, Ref) { return 0, r }

func init() { register.Function2x2(together) }

// beginFn emits the leaves of the first stage.
type beginFn struct{ Leaves int }

// ProcessElement is called by Beam.
func (f *beginFn) ProcessElement(_ []byte, emit func(int)) {
	for i := range f.Leaves {
		emit(i)
	}
}

// leafFn runs one leaf of a stage.
type leafFn struct {
	Job    Job
	Stage  string
	Groups []int
}

// ProcessElement is called by Beam. The key of the result is the group of its first merge.
func (f *leafFn) ProcessElement(ctx context.Context, i int) (int, Ref, error) {
	ref, err := f.Job.step(ctx, f.Stage, 0, i, nil, func(w Work, file string) (int64, error) {
		return w.Leaf(ctx, f.Stage, i, file)
	})
	if err != nil {
		return 0, Ref{}, marked(err)
	}
	if f.Groups != nil {
		return f.Groups[i], ref, nil
	}
	return i / f.Job.Fan, ref, nil
}

// mergeFn merges the files of a group in the order of their numbers, in whatever order the runner delivers them.
type mergeFn struct {
	Job   Job
	Stage string
	Level int
	Fan   int // files per merge of the tree; 0: one merge per group
}

// ProcessElement is called by Beam.
func (f *mergeFn) ProcessElement(ctx context.Context, group int, refs func(*Ref) bool) (int, Ref, error) {
	in, err := ordered(refs)
	if err != nil {
		return 0, Ref{}, marked(err)
	}
	if f.Fan > 0 && len(in) == 1 { // nothing to merge: the file moves up a level
		in[0].Index = group
		return group / f.Fan, in[0], nil
	}
	ref, err := f.Job.step(ctx, f.Stage, f.Level, group, in, func(w Work, file string) (int64, error) {
		return w.Merge(ctx, f.Stage, group, file, in)
	})
	if err != nil {
		return 0, Ref{}, marked(err)
	}
	return group / max(f.Fan, 1), ref, nil
}

// endFn ends a stage and emits the leaves of the next one.
type endFn struct {
	Job         Job
	Stage       string
	Files, Next int
}

// ProcessElement is called by Beam.
func (f *endFn) ProcessElement(ctx context.Context, _ int, refs func(*Ref) bool, emit func(int)) error {
	in, err := ordered(refs)
	if err != nil {
		return marked(err)
	}
	if len(in) != f.Files {
		return marked(fmt.Errorf("stage %s: %d files where %d were to be: the runner has lost some", f.Stage, len(in), f.Files))
	}
	_, err = f.Job.step(ctx, f.Stage, endLevel, 0, in, func(w Work, _ string) (int64, error) {
		return 0, w.End(ctx, f.Stage, in)
	})
	if err != nil {
		return marked(err)
	}
	for i := range f.Next {
		emit(i)
	}
	return nil
}

// endLevel is the level of end steps, above all levels of a tree.
const endLevel = 99

// ordered returns the files of a group by number. It fails if a file comes twice: some runners deliver elements more
// than once although they promise not to, and a sum must not count a file twice.
func ordered(refs func(*Ref) bool) ([]Ref, error) {
	var in []Ref
	for r := (Ref{}); refs(&r); {
		in = append(in, r)
	}
	slices.SortFunc(in, func(a, b Ref) int { return cmp.Compare(a.Index, b.Index) })
	for i := range in[1:] {
		if in[i].Index == in[i+1].Index {
			return nil, fmt.Errorf("the runner has delivered file %d twice", in[i].Index)
		}
	}
	return in, nil
}
