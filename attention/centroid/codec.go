package centroid

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention"
)

// fingerprint distinguishes states of different kinds, shapes, specs and scales.
func (l *layer) fingerprint(kind string, scale float64, spec any) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %d %d %x\n", kind, l.batch, l.qHeads, l.kvHeads, l.dim, l.valueDim,
		math.Float64bits(scale))
	b, err := json.Marshal(spec)
	if err != nil {
		panic("centroid: " + err.Error()) // plain data that has been validated
	}
	h.Write(b)
	return [32]byte(h.Sum(nil))
}

// counts returns the counts in the header of a saved state: tokens, a zero, and the report. There are stateCounts of
// them.
func (l *layer) counts() []uint64 {
	r := l.report
	return []uint64{uint64(l.length), 0, uint64(r.Rows), uint64(r.Empty), uint64(r.Negative),
		uint64(r.Zero), uint64(r.Raised), uint64(r.Exact), uint64(r.Scored)}
}

const stateCounts = 9

func (l *layer) setCounts(c []uint64) error {
	if c[0] > maxLen {
		return fmt.Errorf("%d tokens: %w", c[0], attention.ErrCorrupt)
	}
	l.length = int(c[0])
	l.report = attention.Report{Rows: int64(c[2]), Empty: int64(c[3]), Negative: int64(c[4]), Zero: int64(c[5]),
		Raised: int64(c[6]), Exact: int64(c[7]), Scored: int64(c[8])}
	return nil
}
