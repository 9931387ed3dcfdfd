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

// Part is the merged result of a span of leaves.
type Part struct {
	step *Step
	span Span
	body body
	// kernels names the kernels that computed the leaves, sorted: an architecture and, if it matters, a table of
	// kernels.
	kernels []string
}

// Span returns the leaves of the part.
func (p *Part) Span() Span { return p.span }

// Kernels returns the processors and kernels that computed the part, sorted. With more than one kind, the last bits of
// a model may differ from those of a run on machines of one kind.
func (p *Part) Kernels() []string { return slices.Clone(p.kernels) }

// Rows is the number of rows of the leaves that were used.
func (p *Part) Rows() int64 { return p.body.rows() }

// Free returns the memory of a part that has been written or merged to its step, for the next leaf. Sums are large, and
// the garbage collector would let several of them accumulate. The part must not be used afterwards.
func (p *Part) Free() {
	if p.body != nil {
		p.step.recycle(p.body)
		p.body = nil
	}
}

// about describes a part: its run, its step and its contents. Parts belong to one step if everything except the span,
// the kernels, the rows and the bytes is equal.
type about struct {
	Version int    `json:"version"`
	Step    string `json:"step"`
	Run     string `json:"run"`            // digest of the run
	Plan    string `json:"plan,omitempty"` // digest of the plan, or of the model for Evaluate

	Kind    machine.Kind    `json:"kind,omitempty"`
	Task    machine.Task    `json:"task,omitempty"`
	Outputs int             `json:"outputs,omitempty"`
	Targets []string        `json:"targets,omitempty"`
	Schema  string          `json:"schema,omitempty"` // digest of the schema
	Spec    json.RawMessage `json:"spec,omitempty"`
	Float32 bool            `json:"float32,omitempty"`

	Span
	// Kernels are the kernels that computed the leaves. Parts with different kernels merge, and Finish reports them.
	Kernels []string `json:"kernels"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"` // size of the body that follows
}

const (
	partVersion = 2
	partMagic   = "randfeat part\n\x00\x00"
	// maxAbout bounds the size that the description of a part may claim.
	maxAbout = 1 << 20
)

// identity is the description without the fields that differ between parts of one step.
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

// head precedes the body: magic, length of the description u32, the description as JSON, SHA-256 of all of these. The
// body has its own checksum.
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

// WriteTo writes the part without copying large bodies.
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

// AppendBinary appends the bytes that WriteTo writes.
func (p *Part) AppendBinary(b []byte) ([]byte, error) {
	w := bytes.NewBuffer(b)
	_, err := p.WriteTo(w)
	return w.Bytes(), err
}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (p *Part) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

// readAbout reads the description of a part. Its memory is bounded by the bytes that are really there, not by the size
// the file claims. io.EOF means that there is no further part.
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

// cut turns the end of a file into machine.ErrCorrupt.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is cut: %w", machine.ErrCorrupt)
	}
	return err
}

// Read reads one part that WriteTo wrote; io.EOF means that there is none. A part of another run, plan or step is
// machine.ErrMismatch with an explanation; any other damage is machine.ErrCorrupt.
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

// matches returns an error that explains why a part does not belong to the step.
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
