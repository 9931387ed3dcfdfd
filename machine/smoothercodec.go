package machine

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/internal/seal"
)

// sumsFormat is the format of a saved Smoother or Density. The flag is 1 with weights. The counts are the task (0
// regression, 1 classification, 2 density), features F, outputs K, and rows. The body is
//
//	t, F f64 (−Inf: no key yet); Σ φ2 y e^{−t} and Σ φ2 e^{−t}, F×(K+1) f64; Σy f64; with weights: their sum f64
var sumsFormat = seal.Format{Magic: "randfeat sums\n\x00\x00", Version: 1, Counts: 4}

// sumsTasks numbers the tasks in saved files, so the order must not change.
var sumsTasks = []Task{Regression, Classification, Unsupervised}

// AppendBinary appends the sums to b. A fit that continues from them is bit-identical to one that was never
// interrupted.
func (a *smoother) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	b = slices.Grow(b, sumsFormat.Size(a.sumsSize()))
	b = sumsFormat.Begin(b, seal.Header{Flag: uint16(flag(a.setup.Weighted)), Fingerprint: a.keys.m.Fingerprint(),
		Counts: []uint64{
			uint64(slices.Index(sumsTasks, a.setup.Task)), uint64(len(a.t)), uint64(a.setup.Outputs), uint64(a.n)}})
	b = seal.Append(b, a.t...)
	b = seal.Append(b, a.sums.Data...)
	b = seal.Append(b, a.ySum...)
	if a.setup.Weighted {
		b = seal.Append(b, a.total)
	}
	return seal.Close(b, start), nil
}

// AppendBinary appends the sums to b, in the format of a smoother.
func (d *density) AppendBinary(b []byte) ([]byte, error) { return d.sums.AppendBinary(b) }

// sumsSize is the number of bytes of the sums.
func (a *smoother) sumsSize() int {
	return 8 * (len(a.t) + len(a.sums.Data) + len(a.ySum) + int(flag(a.setup.Weighted)))
}

// unmarshal fills a, which must have no rows, from the bytes of AppendBinary.
func (a *smoother) unmarshal(b []byte) error {
	h, body, err := sumsFormat.Open(b)
	if err != nil {
		return err
	}
	count := h.Counts
	if h.Flag > 1 {
		return fmt.Errorf("flag %d: %w", h.Flag, ErrCorrupt)
	}
	if (h.Flag == 1) != a.setup.Weighted {
		return fmt.Errorf("rows with and without weights: %w", ErrMismatch)
	}
	if count[0] >= uint64(len(sumsTasks)) {
		return fmt.Errorf("task number %d: %w", count[0], ErrCorrupt)
	}
	if f, g := a.keys.m.Fingerprint(), h.Fingerprint; f != g {
		return fmt.Errorf("fingerprint %x…, this map has %x…: %w", g[:4], f[:4], ErrMismatch)
	}
	if task, k := sumsTasks[count[0]], count[2]; task != a.setup.Task || k != uint64(a.setup.Outputs) {
		return fmt.Errorf("%s with %d outputs, want %s with %d: %w", task, k, a.setup.Task, a.setup.Outputs,
			ErrMismatch)
	}
	if count[1] != uint64(len(a.t)) {
		return fmt.Errorf("%d features, the map has %d: %w", count[1], len(a.t), ErrMismatch)
	}
	if want := a.sumsSize(); len(body) != want {
		return fmt.Errorf("%d bytes of sums, want %d: %w", len(body), want, ErrCorrupt)
	}
	ok := true
	body = seal.ReadLogs(body, a.t, &ok)
	body = seal.Read(body, a.sums.Data, &ok)
	body = seal.Read(body, a.ySum, &ok)
	total := []float64{float64(count[3])}
	if a.setup.Weighted {
		seal.Read(body, total, &ok)
		ok = ok && total[0] >= 0
	}
	for f, t := range a.t {
		if math.IsInf(t, -1) { // no key has this feature
			for _, v := range a.sums.Row(f) {
				ok = ok && v == 0
			}
		}
	}
	if !ok {
		return fmt.Errorf("sums that are not finite, or of a feature that no row has: %w", ErrCorrupt)
	}
	a.n, a.total = int64(count[3]), total[0]
	return nil
}
