package parts

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/randfeat/randfeat/machine"
)

// Part is what some leaves add up to.
type Part struct {
	step *Step
	span Span
	body body
	// kernels are those that the leaves were read with, sorted: a processor and, where it matters, a table of kernels.
	kernels []string
}

// Span are the leaves.
func (p *Part) Span() Span { return p.span }

// Kernels are the kinds of processors and kernels that the part was computed with, sorted. With more than one kind the
// last bits of a model may differ from those of a run on machines of one kind.
func (p *Part) Kernels() []string { return slices.Clone(p.kernels) }

// Rows is the number of rows of the leaves that were taken in.
func (p *Part) Rows() int64 { return p.body.rows() }

// Free gives the memory of a part that is written or merged back to its step, for the next one: sums are so large that
// the garbage collector would let a few more of them pile up. The part is of no use then.
func (p *Part) Free() {
	if p.body != nil {
		p.step.recycle(p.body)
		p.body = nil
	}
}

// about is what a part says of itself: which step of which run it is of, and what it holds. Parts are of one step if
// all but the span, the kernels, the rows and the bytes are equal.
type about struct {
	Version int    `json:"version"`
	Step    string `json:"step"`
	Run     string `json:"run"`            // its digest
	Plan    string `json:"plan,omitempty"` // that of the plan, or of the model

	Kind    machine.Kind    `json:"kind,omitempty"`
	Task    machine.Task    `json:"task,omitempty"`
	Outputs int             `json:"outputs,omitempty"`
	Targets []string        `json:"targets,omitempty"`
	Schema  string          `json:"schema,omitempty"` // its digest
	Spec    json.RawMessage `json:"spec,omitempty"`
	Float32 bool            `json:"float32,omitempty"`

	Span
	// Kernels are what the leaves were computed with. Parts with other kernels merge: Finish names them.
	Kernels []string `json:"kernels"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"` // that follow
}

const (
	partVersion = 2
	partMagic   = "randfeat part\n\x00\x00"
	// maxAbout bounds the description of a part that comes from a file.
	maxAbout = 1 << 20
)

// identity is what parts that merge have in common.
func (a about) identity() string {
	a.Span, a.Kernels, a.Rows, a.Bytes = Span{}, nil, 0, 0
	b, err := json.Marshal(a)
	if err != nil {
		panic("parts: " + err.Error()) // a struct of texts and numbers
	}
	return string(b)
}

// Size is the number of bytes that WriteTo writes.
func (p *Part) Size() (int64, error) {
	head, err := p.head()
	if err != nil {
		return 0, err
	}
	n, err := p.body.size()
	return n + int64(len(head)), err
}

// head is what stands before the body: magic, length of the description u32, the description as JSON, SHA-256 of all of
// it. The body has a checksum of its own.
func (p *Part) head() ([]byte, error) {
	a := p.step.about
	a.Span, a.Kernels, a.Rows = p.span, p.kernels, p.body.rows()
	var err error
	if a.Bytes, err = p.body.size(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	b := binary.LittleEndian.AppendUint32([]byte(partMagic), uint32(len(text)))
	b = append(b, text...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// WriteTo writes the part; large ones are not copied.
func (p *Part) WriteTo(w io.Writer) (int64, error) {
	c := &counter{w: w}
	head, err := p.head()
	if err != nil {
		return 0, err
	}
	if _, err := c.Write(head); err != nil {
		return c.n, err
	}
	return c.n, p.body.write(c)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// AppendBinary appends what WriteTo writes.
func (p *Part) AppendBinary(b []byte) ([]byte, error) {
	w := bytes.NewBuffer(b)
	_, err := p.WriteTo(w)
	return w.Bytes(), err
}

// MarshalBinary is AppendBinary to no bytes.
func (p *Part) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

// readAbout reads the description of a part. No more memory is used than the bytes that are there justify.
func readAbout(r io.Reader) (about, error) {
	var a about
	b := make([]byte, len(partMagic)+4)
	if n, err := io.ReadFull(r, b); err != nil {
		if err == io.EOF && n == 0 {
			return a, err
		}
		return a, cut(err)
	}
	if string(b[:len(partMagic)]) != partMagic {
		return a, fmt.Errorf("it does not begin as a part does: %w", machine.ErrCorrupt)
	}
	n := binary.LittleEndian.Uint32(b[len(partMagic):])
	if n > maxAbout {
		return a, fmt.Errorf("a description of %d bytes: %w", n, machine.ErrCorrupt)
	}
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, int64(n)+sha256.Size); err != nil {
		return a, cut(err)
	}
	b = append(b, text.Bytes()[:n]...)
	if sum := sha256.Sum256(b); !bytes.Equal(sum[:], text.Bytes()[n:]) {
		return a, fmt.Errorf("the checksum is wrong: %w", machine.ErrCorrupt)
	}
	dec := json.NewDecoder(bytes.NewReader(text.Bytes()[:n]))
	if err := dec.Decode(&a); err != nil {
		return a, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	if a.Version != partVersion {
		return a, fmt.Errorf("version %d of the format, this program reads %d: %w", a.Version, partVersion,
			machine.ErrCorrupt)
	}
	if a.Rows < 0 || a.Bytes < 0 {
		return a, fmt.Errorf("%d rows in %d bytes: %w", a.Rows, a.Bytes, machine.ErrCorrupt)
	}
	return a, nil
}

func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is cut: %w", machine.ErrCorrupt)
	}
	return err
}

// Read reads one part that WriteTo wrote; io.EOF: there is none. Parts of another run, plan or step are
// machine.ErrMismatch with a sentence, anything else that does not fit machine.ErrCorrupt.
func (s *Step) Read(r io.Reader) (*Part, error) {
	a, err := readAbout(r)
	if err != nil {
		return nil, err
	}
	if err := s.matches(a); err != nil {
		return nil, err
	}
	b, err := s.read(r, a.Bytes)
	if err != nil {
		return nil, err
	}
	if b.rows() != a.Rows {
		return nil, fmt.Errorf("%d rows, its description says %d: %w", b.rows(), a.Rows, machine.ErrCorrupt)
	}
	return &Part{step: s, span: a.Span, body: b, kernels: union(nil, a.Kernels)}, nil
}

// Unmarshal is Read of bytes that are one part and nothing else.
func (s *Step) Unmarshal(b []byte) (*Part, error) {
	r := bytes.NewReader(b)
	p, err := s.Read(r)
	if err == io.EOF {
		err = cut(err)
	}
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("%d bytes behind the part: %w", r.Len(), machine.ErrCorrupt)
	}
	return p, err
}

// matches says what keeps a part from being one of the step.
func (s *Step) matches(a about) error {
	mine := s.about
	other := func(what, got, want string) error {
		return fmt.Errorf("it is of another %s: %.16s, this one is %.16s: %w", what, got, want, machine.ErrMismatch)
	}
	switch {
	case a.Step != mine.Step:
		return other("step", a.Step, mine.Step)
	case a.Run != mine.Run:
		return other("run, of other files or options", a.Run, mine.Run)
	case a.Plan != mine.Plan:
		return other("plan", a.Plan, mine.Plan)
	case a.Schema != mine.Schema:
		return other("schema", a.Schema, mine.Schema)
	case a.identity() != mine.identity():
		return other("model", string(a.Kind)+" "+string(a.Spec), string(mine.Kind)+" "+string(mine.Spec))
	case s.run.tree().level(a.Span) < 0:
		return fmt.Errorf("%s of %d: %w", a.Span, s.run.Leaves(), machine.ErrCorrupt)
	}
	return nil
}
