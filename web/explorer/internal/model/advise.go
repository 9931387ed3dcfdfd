package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// AdviseRequest asks for the ranking of estimators on one or two files, which the call carries.
type AdviseRequest struct {
	Kernel   string   `json:"kernel"`
	Features int      `json:"features"`
	Scale    string   `json:"scale"` // bandwidth; empty: the median distance, or d^¼ for softmax
	Positive bool     `json:"positive"`
	Names    []string `json:"names"` // of the files; none: a sample
	Seed     uint64   `json:"seed"`
}

// Advice is the advisor's report, and what was read.
type Advice struct {
	*advise.Report
	Scale float64  `json:"scale"`
	Notes []string `json:"notes,omitempty"`
}

// The bounds of what a browser is asked to do: bytes of a file, numbers of a set, and the pilot of the advisor.
const (
	MaxFile    = 1 << 28
	maxNumbers = 1 << 23
	pilotRows  = 64
	pilotDraws = 16
)

func (m *Model) advise(r AdviseRequest) (*Advice, error) {
	kind, err := kernel.ParseKind(r.Kernel)
	if err != nil {
		return nil, err
	}
	if len(r.Names) != len(m.files) || len(m.files) > 2 {
		return nil, fmt.Errorf("%d files, want one set, or queries and keys", len(m.files))
	}
	out := &Advice{}
	var sets [2]dense.Matrix[float64]
	for i, b := range m.files {
		if len(b) > MaxFile {
			return nil, fmt.Errorf("%s has %d MB, a browser is asked to read %d at most: use randfeat advise", r.Names[i],
				len(b)>>20, MaxFile>>20)
		}
		var note string
		if sets[i], note, err = readSet(r.Names[i], b, len(m.files) == 1); err != nil {
			return nil, err
		}
		if note != "" {
			out.Notes = append(out.Notes, note)
		}
	}
	if len(m.files) == 0 {
		sets = sample(r.Seed)
		out.Notes = append(out.Notes, "A sample: 512 queries and 512 keys of 16 columns, whose variances fall off along the axes in opposite order, around different means.")
	}
	if out.Scale, err = bandwidth(r.Scale, kind, sets[0], sets[1]); err != nil {
		return nil, err
	}
	o := advise.Options{Kernel: kernel.Kernel{Kind: kind, Scale: out.Scale}, Features: r.Features, Positive: r.Positive,
		Rows: pilotRows, Draws: pilotDraws, Seed: r.Seed, Progress: m.Progress}
	if out.Report, err = advise.Kernel(m.ctx, sets[0], sets[1], o); err != nil {
		return nil, err
	}
	return out, nil
}

// readSet reads an array as it is; a table is encoded as "randfeat fit" does it, or, as one of two, taken as it is,
// too.
func readSet(name string, b []byte, encode bool) (m dense.Matrix[float64], note string, err error) {
	if bytes.HasPrefix(b, []byte("\x93NUMPY")) {
		t, err := npy.ReadTensor(bytes.NewReader(b))
		if err != nil {
			return m, "", fmt.Errorf("%s: %w", name, err)
		}
		if !t.IsFloat() || len(t.Shape) != 2 {
			return m, "", fmt.Errorf("%s holds %s of the shape %s, want float32 or float64 of the shape [rows, columns]; of heads, save one", name, t.Element, t.Dims())
		}
		m = dense.Matrix[float64]{Rows: t.Shape[0], Cols: t.Shape[1], Stride: t.Shape[1], Data: npy.Floats[float64](t)}
		if len(m.Data) > maxNumbers {
			m, note = thin(m), fmt.Sprintf("%s has %d rows; every %s is used.", name, m.Rows, nth(m))
		}
		return m, note, nil
	}
	src, err := files.OpenBytes(name, b, data.Options{})
	if err != nil {
		return m, "", err
	}
	var o data.LearnOptions
	if !encode {
		o.Numeric = src.Columns()
	}
	schema, _, err := data.Learn(src, o)
	if err != nil {
		return m, "", err
	}
	if !encode {
		for i := range schema.Fields {
			schema.Fields[i].Mean, schema.Fields[i].Scale = 0, 1
		}
	}
	enc, err := schema.Encoder(src.Columns(), false)
	if err != nil {
		return m, "", err
	}
	width := schema.Width()
	if width == 0 {
		return m, "", fmt.Errorf("%s has no usable columns: %w", name, dense.ErrShape)
	}
	r, err := src.Open(enc.Kinds())
	if err != nil {
		return m, "", err
	}
	defer r.Close()
	m = dense.Matrix[float64]{Cols: width, Stride: width}
	var block data.Block
	for {
		err := r.Read(&block, 1024)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, "", err
		}
		x := dense.New[float64](block.Rows, width)
		if err := enc.Encode(x, dense.Matrix[float64]{}, &block, r.Where); err != nil {
			return m, "", err
		}
		if len(m.Data)+len(x.Data) > maxNumbers {
			note = fmt.Sprintf(" Only the first %d rows are used.", m.Rows)
			break
		}
		m.Data, m.Rows = append(m.Data, x.Data...), m.Rows+x.Rows
	}
	how := "taken as they are"
	if encode {
		how = "encoded as randfeat fit does it: numbers standardised, text as levels"
	}
	return m, fmt.Sprintf("%s: %d rows and %d columns, %s to %d numbers a row.%s", name, m.Rows, len(src.Columns()),
		how,
		width, note), nil
}

// thin keeps rows at equal distances, so many as a browser is asked to look at.
func thin(m dense.Matrix[float64]) dense.Matrix[float64] {
	step := stepOf(m)
	out := dense.Matrix[float64]{Cols: m.Cols, Stride: m.Cols}
	for i := 0; i < m.Rows; i += step {
		out.Data, out.Rows = append(out.Data, m.Row(i)...), out.Rows+1
	}
	return out
}

func stepOf(m dense.Matrix[float64]) int { return 1 + m.Rows*m.Cols/maxNumbers }

func nth(m dense.Matrix[float64]) string { return strconv.Itoa(stepOf(m)) + "th" }

// sample is two sets on which families differ.
func sample(seed uint64) (sets [2]dense.Matrix[float64]) {
	const rows, dim = 512, 16
	for s := range sets {
		sets[s] = dense.New[float64](rows, dim)
		rng.Normals(sets[s].Data, rng.Stream(seed, 0x5a, uint64(s)))
		for i := range rows {
			for l := range dim {
				axis := l
				if s == 1 {
					axis = dim - 1 - l
				}
				v := &sets[s].Row(i)[l]
				*v = *v*1.6*math.Exp(-float64(axis)/5) + 0.2*float64(1-2*s)
			}
		}
	}
	return sets
}

// bandwidth is a number, or chosen: that of attention for the softmax kernel, else the median distance of rows.
func bandwidth(text string, kind kernel.Kind, q, k dense.Matrix[float64]) (float64, error) {
	if text = strings.TrimSpace(text); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("the bandwidth is %q, want a positive number", text)
		}
		return v, nil
	}
	if kind == kernel.Softmax {
		return kernel.Attention(q.Cols).Scale, nil
	}
	if k.IsEmpty() {
		k = q
	}
	if q.Cols != k.Cols || q.Rows == 0 || k.Rows == 0 {
		return 1, nil // the advisor says what is wrong
	}
	return advise.MedianDistance(q, k), nil
}
