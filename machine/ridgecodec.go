package machine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/seal"
)

// ridgeFormat is the format of saved ridge sums. The flag is 1 for float32, plus 2 with weights. The counts are
// classification (0 or 1), features F, outputs K, rows, and rows in the float32 part. The body is
//
//	upper triangle of ΦᵀΦ by rows f64; ΦᵀY and Σφ, F×(K+1) f64; Σy², Σy f64
//	with weights: their sum f64
//	with float32: upper triangle of the part by rows f32
var ridgeFormat = seal.Format{Magic: "randfeat ridge\n\x00", Version: 1, Counts: 5}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (r *Ridge) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary appends the sums to b. A fit that continues from them is bit-identical to one that was never
// interrupted.
func (r *Ridge) AppendBinary(b []byte) ([]byte, error) {
	out := bytes.NewBuffer(slices.Grow(b, ridgeFormat.Size(r.sumsSize())))
	err := r.Write(out)
	return out.Bytes(), err
}

func (r *Ridge) appendHeader(b []byte) []byte {
	return ridgeFormat.Begin(b, seal.Header{Flag: uint16(flag(r.setup.Float32) + 2*flag(r.setup.Weighted)),
		Fingerprint: r.fingerprint,
		Counts: []uint64{
			flag(r.setup.Task == Classification), uint64(r.features), uint64(r.setup.Outputs), uint64(r.sums.N),
			uint64(r.sums.PartRows)}})
}

// each visits the numbers of the body in order, some at a time, to write them or to set them. Both directions of the
// codec use it, so they cannot disagree.
func (r *Ridge) each(wide func([]float64) error, single func([]float32) error) error {
	for i := range r.sums.Gram.Rows {
		if err := wide(r.sums.Gram.Row(i)[i:]); err != nil {
			return err
		}
	}
	for _, v := range [][]float64{r.sums.Cross.Data, r.sums.Squares, r.sums.Sum} {
		if err := wide(v); err != nil {
			return err
		}
	}
	if r.setup.Weighted {
		weight := []float64{r.sums.Weight}
		if err := wide(weight); err != nil {
			return err
		}
		r.sums.Weight = weight[0]
	}
	for i := range r.sums.Part.Rows {
		if err := single(r.sums.Part.Row(i)[i:]); err != nil {
			return err
		}
	}
	return nil
}

// begin prepares r, which must have no rows, for the sums that follow the header h; size is their number of bytes. It
// checks all sizes before anything is allocated or read.
func (r *Ridge) begin(h seal.Header, size int64) error {
	count := h.Counts
	if h.Flag > 3 || count[0] > 1 {
		return fmt.Errorf("precision number %d, task number %d: %w", h.Flag, count[0], ErrCorrupt)
	}
	saved := Setup{Task: Regression, Outputs: int(count[2]), Float32: h.Flag&1 == 1, Weighted: h.Flag&2 == 2}
	if count[0] == 1 {
		saved.Task = Classification
	}
	if err := r.matches(saved, h.Fingerprint); err != nil {
		return err
	}
	if count[1] != uint64(r.features) {
		return fmt.Errorf("%d features, the map has %d: %w", count[1], r.features, ErrMismatch)
	}
	want := r.sumsSize()
	if size != int64(want) || count[4] >= linalg.FlushRows || count[4] > count[3] || !r.setup.Float32 && count[4] > 0 {
		return fmt.Errorf("%d bytes of sums with %d rows in the part, want %d bytes: %w", size, count[4], want,
			ErrCorrupt)
	}
	r.sums.N, r.sums.PartRows = int64(count[3]), int(count[4])
	r.sums.Weight = float64(r.sums.N)
	return nil
}

// filled checks sums that were read; ok says that all numbers are finite.
func (r *Ridge) filled(ok bool) error {
	if !ok || !(r.sums.Weight >= 0) {
		return fmt.Errorf("sums that are not finite: %w", ErrCorrupt)
	}
	return nil
}

// sumsSize is the number of bytes of the sums.
func (r *Ridge) sumsSize() int {
	triangle := r.features * (r.features + 1) / 2
	size := 8 * (triangle + len(r.sums.Cross.Data) + 2*r.setup.Outputs)
	if r.setup.Weighted {
		size += 8
	}
	if r.setup.Float32 {
		size += 4 * triangle
	}
	return size
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
