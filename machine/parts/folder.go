package parts

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/machine"
)

// Folder keeps a run, its plan and its parts as files that any number of processes share. A file appears only when it
// is complete, and a repeated step writes the same file again, so no locks are needed. Names:
//
//	run.json, plan.safetensors
//	learn-000000-000007.part   parts of the step learn, leaves 0 to 7
type Folder struct {
	path string
	run  *Run
}

// CreateFolder writes a run to a folder, which it creates if necessary. A folder with another run is refused.
func CreateFolder(path string, r *Run) (*Folder, error) {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, err
	}
	f := &Folder{path, r}
	switch old, err := OpenFolder(path); {
	case err == nil && old.run.id == r.id:
		return old, nil
	case err == nil:
		return nil, fmt.Errorf("%s has another run, of other files or options: name another folder, or remove this one: %w",
			path, machine.ErrMismatch)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	b, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return f, f.write(runFile, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// OpenFolder reads the run of a folder.
func OpenFolder(path string) (*Folder, error) {
	name := filepath.Join(path, runFile)
	b, err := localfile.Read(name, localfile.JSON("a run of parts", maxRun))
	if err != nil {
		return nil, err
	}
	r, err := ReadRun(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Folder{path, r}, nil
}

// Run returns the run of the folder.
func (f *Folder) Run() *Run { return f.run }

// write creates a file by work. The file appears under its name only when it is complete.
func (f *Folder) write(name string, work func(io.Writer) error) error {
	out, err := localfile.Create(filepath.Join(f.path, name))
	if err != nil {
		return err
	}
	defer out.Abort()
	b := bufio.NewWriterSize(out, 1<<20)
	if err := work(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return out.Commit()
}

// Reads reports whether path names the run, the plan, a part or an input file of the folder, under any name or link,
// and returns that file. Callers refuse it as an output, which would replace it.
func (f *Folder) Reads(path string) (string, bool) {
	own := []string{filepath.Join(f.path, runFile), filepath.Join(f.path, planFile)}
	entries, err := os.ReadDir(f.path)
	for _, e := range entries {
		if err == nil && strings.HasSuffix(e.Name(), partSuffix) {
			own = append(own, filepath.Join(f.path, e.Name()))
		}
	}
	if name, ok := reads(path, own); ok {
		return name, true
	}
	return f.run.Reads(path)
}

// planFile is the file name of the plan.
const planFile = "plan.safetensors"

const (
	// File name of the run, and the suffix of files of parts.
	runFile    = "run.json"
	partSuffix = ".part"
	// maxRun is the largest run that is read, in bytes. It lists every file of a table.
	maxRun = 1 << 30
)

// WritePlan saves the plan. It refuses to replace the plan of existing sums, which would become useless.
func (f *Folder) WritePlan(p *Plan) error {
	b, err := p.MarshalBinary()
	if err != nil {
		return err
	}
	if old, err := f.Plan(); err == nil && old.digest != p.digest {
		names, err := f.files("sum")
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return fmt.Errorf("%s has sums of another plan, such as %s: remove them first: %w", f.path, names[0],
				machine.ErrMismatch)
		}
	}
	return f.write(planFile, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Plan reads the plan of the folder. A folder without one is fs.ErrNotExist.
func (f *Folder) Plan() (*Plan, error) {
	b, err := localfile.Read(filepath.Join(f.path, planFile),
		localfile.Format{Want: "a plan of parts", Check: tensorfile.Sealed})
	if err != nil {
		return nil, err
	}
	p, err := f.run.ReadPlan(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(f.path, planFile), err)
	}
	return p, nil
}

// written describes a file of parts.
type written struct {
	Path  string
	Rows  int64
	Bytes int64
	Parts int // number of parts in the file
}

// Do runs a step for some leaves and writes their parts to one file. An empty span writes nothing.
func (f *Folder) Do(ctx context.Context, s *Step, leaves Span) (written, error) {
	var done written
	if leaves.Lo == leaves.Hi {
		return done, nil
	}
	name := fmt.Sprintf("%s-%06d-%06d%s", s.name, leaves.Lo, leaves.Hi-1, partSuffix)
	err := f.write(name, func(w io.Writer) error {
		return s.Do(ctx, leaves, func(p *Part) error {
			n, err := p.WriteTo(w)
			done.Rows, done.Bytes, done.Parts = done.Rows+p.Rows(), done.Bytes+n, done.Parts+1
			p.Free()
			return err
		})
	})
	done.Path = filepath.Join(f.path, name)
	return done, err
}

// files lists the files of a step.
func (f *Folder) files(step string) ([]string, error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), step+"-") && strings.HasSuffix(e.Name(), partSuffix) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// partFile is a file of parts, opened when its turn comes.
type partFile struct {
	path string
	f    *os.File
	r    *bufio.Reader
	lo   int // its first leaf
}

func (p *partFile) open() error {
	var err error
	if p.f, err = os.Open(p.path); err == nil {
		p.r = bufio.NewReaderSize(p.f, 1<<20)
	}
	return err
}

// Whole merges all parts of a step. Files are read in the order of their first leaf, so that few parts are in memory at
// a time. A part that belongs to another step, or is damaged, missing or duplicated, is an error that names the file or
// the shard.
func (f *Folder) Whole(ctx context.Context, s *Step) (*Part, error) {
	names, err := f.files(s.name)
	if err != nil {
		return nil, err
	}
	var all []*partFile
	for _, name := range names {
		p := &partFile{path: filepath.Join(f.path, name)}
		if err := p.open(); err != nil {
			return nil, err
		}
		a, err := readAbout(p.r)
		p.f.Close()
		if p.f = nil; err == io.EOF {
			err = cut(err)
		}
		if err == nil {
			err = s.matches(a)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: remove it, and run the step for its leaves again", p.path, err)
		}
		p.lo = a.Lo
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b *partFile) int { return cmp.Compare(a.lo, b.lo) })
	at, end, from := 0, 0, ""
	defer func() {
		if at < len(all) && all[at].f != nil {
			all[at].f.Close()
		}
	}()
	return s.Stream(func() (*Part, error) {
		for at < len(all) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p := all[at]
			if p.f == nil {
				if err := p.open(); err != nil {
					return nil, err
				}
			}
			part, err := s.Read(p.r)
			if err == io.EOF {
				p.f.Close()
				at++
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.path, err)
			}
			if part.span.Lo < end {
				return nil, fmt.Errorf("%s is in %s and in %s: remove one of them: %w", f.run.place(part.span.Lo), from,
					p.path, machine.ErrMismatch)
			}
			end, from = part.span.Hi, p.path
			return part, nil
		}
		return nil, nil
	})
}

// Missing returns the leaves that no file of a step covers. It reads only the descriptions of the parts.
func (f *Folder) Missing(step string) ([]Span, error) {
	names, err := f.files(step)
	if err != nil {
		return nil, err
	}
	has := make([]bool, f.run.Leaves())
	for _, name := range names {
		spans, err := spansOf(filepath.Join(f.path, name), f.run.Leaves())
		if err != nil {
			return nil, err
		}
		for _, s := range spans {
			for i := s.Lo; i < s.Hi; i++ {
				has[i] = true
			}
		}
	}
	var out []Span
	for i, h := range has {
		switch n := len(out); {
		case h:
		case n > 0 && out[n-1].Hi == i:
			out[n-1].Hi++
		default:
			out = append(out, Span{i, i + 1})
		}
	}
	return out, nil
}

// spansOf returns the spans of the parts in a file, skipping their contents.
func spansOf(path string, leaves int) ([]Span, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var out []Span
	for {
		a, err := readAbout(in)
		if err == io.EOF {
			return out, nil
		}
		if err == nil && (a.Lo < 0 || a.Hi > leaves) {
			err = fmt.Errorf("%s of %d: %w", a.Span, leaves, machine.ErrCorrupt)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if _, err := in.Seek(a.Bytes, io.SeekCurrent); err != nil {
			return nil, err
		}
		out = append(out, a.Span)
	}
}
