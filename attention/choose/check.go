package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a relative error |ô−o|/|o| with a 90 % interval. The interval of a [Check] covers the error over all rows
// of its arguments. The interval of a [Choice] covers the error on another text of the same kind.
type Estimate struct {
	Error float64 `json:"error"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Rows  int     `json:"rows"` // measured rows, which see at least one key
}

// rowError is one sampled row: a = |ô−o|², b = |o|², and the text (batch entry) that it comes from.
type rowError struct {
	a, b float64
	text int
}

// errorSums collects the measured rows of a head.
type errorSums struct{ rows []rowError }

func (s *errorSums) merge(o errorSums) { s.rows = append(s.rows, o.rows...) }

func (s *errorSums) add(a, b float64, text int) { s.rows = append(s.rows, rowError{a, b, text}) }

// error returns √(Σa/Σb), the relative error of all rows together.
func (s *errorSums) error() float64 {
	var a, b float64
	for _, r := range s.rows {
		a, b = a+r.a, b+r.b
	}
	if a == 0 {
		return 0
	}
	// Outputs that should be zero, or that are not finite, make the quotient infinite or NaN. MaxFloat64 stands for
	// these, since JSON has no infinities.
	if e := math.Sqrt(a / b); e <= math.MaxFloat64 {
		return e
	}
	return math.MaxFloat64
}

// The interval is a bootstrap-t interval of the logarithm of the error (Efron and Tibshirani 1993, §12.5). The
// squares of rows are skewed: a few dozen rows often lack the large ones, and the studentised error has a long tail
// on that side, which a normal quantile misses.
const (
	// Resamples of few rows, and of more than manyRows: (resamples + 1)/20 is a whole number, the rank of the 5 %
	// quantile.
	resamples    = 799
	fewResamples = 199
	manyRows     = 256
	outside      = 0.1 // share of intervals that miss the error
	fewest       = 4   // with fewer rows than this there is no upper end
)

// estimate returns the error with an interval for the error over all rows, sampled or not.
func (s *errorSums) estimate() Estimate {
	e := Estimate{Error: s.error(), Rows: len(s.rows)}
	if e.Error == 0 {
		return e
	}
	if e.High = math.MaxFloat64; e.Error == math.MaxFloat64 || len(s.rows) < fewest {
		return e
	}
	low, high := s.bootstrap()
	e.Low, e.High = e.Error*math.Exp(-low), min(e.Error*math.Exp(high), math.MaxFloat64)
	return e
}

// bootstrap returns the distances from log √(Σa/Σb) to both ends of its interval.
func (s *errorSums) bootstrap() (low, high float64) {
	n := len(s.rows)
	log, se := logError(s.rows, func(i int) int { return i })
	if se == 0 {
		return 0, 0
	}
	times := resamples
	if n > manyRows {
		times = fewResamples
	}
	r := rand.New(rng.Stream(uint64(n), 0x62)) // a fixed seed: the same rows have the same interval
	t := make([]float64, 0, times)
	for range times {
		l, e := logError(s.rows, func(int) int { return r.IntN(n) })
		switch {
		case e > 0:
			t = append(t, (l-log)/e)
		case l < log:
			t = append(t, math.Inf(-1))
		default:
			t = append(t, math.Inf(1))
		}
	}
	slices.Sort(t)
	at := (times+1)*5/100 - 1
	return max(0, t[times-1-at]*se), max(0, -t[at]*se)
}

// logError returns log √(Σa/Σb) over a resample, in which pick(i) is the row at place i, and the standard error of that
// logarithm. To first order the quotient r = Σa/Σb has the standard error of Σ(a − r·b)/Σb, which accounts for the
// covariance of a and b.
func logError(rows []rowError, pick func(i int) int) (log, se float64) {
	var a, b, aa, ab, bb float64
	for i := range rows {
		r := &rows[pick(i)]
		x, y := r.a, r.b
		a, b, aa, ab, bb = a+x, b+y, aa+x*x, ab+x*y, bb+y*y
	}
	if !(a > 0 && b > 0) {
		return math.Inf(-1), 0
	}
	r, m := a/b, float64(len(rows))
	d := aa - 2*r*ab + r*r*bb
	if d < 1e-12*aa { // rounding
		d = 0
	}
	return math.Log(r) / 2, math.Sqrt(m/(m-1)*d) / b / (2 * r)
}

// A sample of rows does not show how the error of a head differs between texts. The standard deviation between
// texts, in logarithms, is estimated from the given texts. There are few of them, so the estimate is shrunk towards
// spreadOf, which counts as much as textPrior + 1 texts. With one text it equals spreadOf: an assumption.
//
// textSpread was set by synthetic heads of 512 keys. Real heads of two other corpora, measured later, have 0.17 to
// 0.25, and single layers up to 0.43 (docs/attention-measured.md). Long texts differ less, because each of them
// averages over many passages: 8 heads of MiniLM have 0.13 at 2048 keys and 0.12 at 4096 (root mean square, 16 texts
// each), and the heads of the table "Choices by seconds" 0.12 to 0.15. It falls no further: passages of one book or
// one article have much in common, however many they are. With 0.12 for leastSpread, 14 and 18 % of the errors at
// 4096 keys were above the stated end, where 5 % are expected.
const (
	textSpread  = 0.2
	leastSpread = 0.15
	textPrior   = 4
)

// spreadOf returns the assumed standard deviation between texts with length keys, in logarithms.
func spreadOf(length int) float64 {
	return max(leastSpread, textSpread*math.Pow(512/float64(max(length, 512)), 0.25))
}

// forecast returns the error with an interval for another text of the same kind. spread is the assumed standard
// deviation between texts, in logarithms (spreadOf). The interval of the rows and a prediction interval for one more
// text (Student's t) are independent, so their widths are added as squares.
func (s *errorSums) forecast(spread float64) Estimate {
	e := s.estimate()
	if e.Error == 0 || e.High == math.MaxFloat64 {
		return e
	}
	var a, b []float64
	for _, r := range s.rows {
		for len(a) <= r.text {
			a, b = append(a, 0), append(b, 0)
		}
		a[r.text], b[r.text] = a[r.text]+r.a, b[r.text]+r.b
	}
	var n, mean, squares float64
	for t := range a {
		if a[t] > 0 && b[t] > 0 {
			l := math.Log(a[t]/b[t]) / 2
			n++
			d := l - mean
			mean += d / n
			squares += d * (l - mean)
		}
	}
	df := textPrior + n - 1
	sd := math.Sqrt((textPrior*spread*spread + squares) / df * (1 + 1/n))
	half := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1-outside/2) * sd
	low, high := math.Log(e.Error/e.Low), math.Log(e.High/e.Error)
	e.Low = e.Error * math.Exp(-math.Hypot(half, low))
	e.High = min(e.Error*math.Exp(math.Hypot(half, high)), math.MaxFloat64)
	return e
}

// Check holds the exact outputs of a sample of query rows and measures other attentions against them, over the same
// arguments. The work grows with the sample, not with the number of queries.
type Check struct {
	vis     attention.Visibility
	q, k, v attention.Seq[float32]
	rows    []int                  // sampled positions, the same in every batch and head
	exact   attention.Seq[float32] // exact outputs of these rows: batch × query heads × len(rows) × value dimension
	seen    [][]bool               // by batch and row: the row sees a key
}

// Default rows per head and batch. Errors differ between texts, so rows of several texts say more than as many rows of
// one text, and each text needs fewer.
const (
	rowsOfOne  = 64
	rowsOfMany = 32
	// Causal attention has so many times as many rows: a few rows make most of the error of decoders.
	causalRows = 4
)

// NewCheck computes the exact outputs of rows query rows per head and batch. 0 means 64 rows, or 32 if there is more
// than one batch, and four times as many if causal. One row is drawn from each of equal parts of the sequence.
// Landmarks of a centroid fit are avoided, because the fit has seen them. The Check refers to q, k and v.
func NewCheck(vis attention.Visibility, scale float64, q, k, v attention.Seq[float32], rows int,
	seed uint64) (*Check, error) {
	if err := checkInputs(vis, q, k, v); err != nil {
		return nil, err
	}
	c, err := newCheck(vis, q, k, v, rows, 0, q.Len, seed, nil)
	if err == nil {
		err = c.answer(scale)
	}
	return c, err
}

// checkInputs validates the arguments of an attention: shapes, and finite values where they are seen.
func checkInputs(vis attention.Visibility, q, k, v attention.Seq[float32]) error {
	for _, s := range [...]struct {
		name string
		seq  attention.Seq[float32]
	}{{"q", q}, {"k", k}, {"v", v}} {
		if err := s.seq.Check(s.name); err != nil {
			return err
		}
	}
	out := attention.Shape{Batch: q.Batch, Heads: q.Heads, Len: q.Len, Dim: v.Dim}
	if err := vis.CheckShapes(out, q.Shape, k.Shape, v.Shape); err != nil {
		return err
	}
	return attention.CheckValues(q, k, v, vis.SeenKeys(nil, q.Batch, q.Len, k.Len))
}

// newCheck is NewCheck for checked arguments, without exact outputs. It samples positions from to to−1, and avoids the
// positions used if possible.
func newCheck(vis attention.Visibility, q, k, v attention.Seq[float32], rows, from, to int, seed uint64,
	used []int) (*Check, error) {
	if rows == 0 {
		rows = defaultRows(q.Batch, vis.Causal)
	}
	if rows < 1 {
		return nil, fmt.Errorf("a check of %d rows, want at least 1: %w", rows, dense.ErrShape)
	}
	c := &Check{vis: vis, q: q, k: k, v: v}
	c.rows = sampleRows(q.Len, rows, from, to, seed, used)
	return c, nil
}

// defaultRows returns the default number of rows per head and batch.
func defaultRows(batches int, causal bool) int {
	rows := rowsOfOne
	if batches > 1 {
		rows = rowsOfMany
	}
	if causal {
		rows *= causalRows
	}
	return rows
}

// sampleRows draws one position from each of n equal parts of [from, to), in ascending order. It avoids landmarks and
// used positions unless a part has no others.
func sampleRows(length, n, from, to int, seed uint64, used []int) []int {
	n = min(n, to-from)
	r := rand.New(rng.Stream(seed, uint64(length)))
	avoid := map[int]bool{}
	for _, at := range used {
		avoid[at] = true
	}
	for _, n := range landmarks {
		for t := range n {
			avoid[(2*t+1)*length/(2*n)] = true
		}
	}
	var rows []int
	for t := range n {
		lo, hi := from+t*(to-from)/n, from+(t+1)*(to-from)/n
		at := lo + r.IntN(hi-lo)
		for try := 0; avoid[at] && try < hi-lo; try++ {
			if at++; at == hi {
				at = lo
			}
		}
		rows = append(rows, at)
	}
	return rows
}

// landmarks are the numbers of landmarks of centroid fits, by default and in the grids. A fit takes the middles of as
// many equal parts of the sequence.
var landmarks = []int{32, fewLandmarks}

// answer computes the exact outputs. Rows that see the same keys are computed by one call; plain causal rows have a
// faster way (answerCausal).
func (c *Check) answer(scale float64) error {
	n := len(c.rows)
	c.exact = attention.NewSeq[float32](c.q.Batch, c.q.Heads, n, c.v.Dim)
	counts := c.vis.SeenKeys(nil, c.q.Batch, c.q.Len, c.k.Len)
	if c.vis.Causal && counts == nil && c.vis.Segments == nil && c.q.Len == c.k.Len && slices.IsSorted(c.rows) {
		for range c.q.Batch {
			c.seen = append(c.seen, slices.Repeat([]bool{true}, n))
		}
		return c.answerCausal(scale)
	}
	for b := range c.q.Batch {
		seen := make([]bool, n)
		for i0 := 0; i0 < n; {
			lo, hi, _ := c.vis.Keys(b, c.rows[i0], c.q.Len, c.k.Len)
			i1 := i0 + 1
			for ; i1 < n; i1++ {
				if l, h, _ := c.vis.Keys(b, c.rows[i1], c.q.Len, c.k.Len); l != lo || h != hi {
					break
				}
			}
			exact := attention.Exact[float32]{Scale: scale}
			any := hi > lo
			if counts != nil {
				exact.KeyMask, any = counts[b*c.k.Len+lo:b*c.k.Len+hi], false
				for _, m := range exact.KeyMask {
					any = any || m
				}
			}
			for i := i0; i < i1; i++ {
				seen[i] = any
			}
			if any {
				_, err := exact.Forward(cut(batch(c.exact, b), i0, i1), gathered(batch(c.q, b), c.rows[i0:i1]),
					cut(batch(c.k, b), lo, hi), cut(batch(c.v, b), lo, hi))
				if err != nil {
					return err
				}
			}
			i0 = i1
		}
		c.seen = append(c.seen, seen)
	}
	return nil
}

// Rows returns the positions of the sampled queries, which are the same in every batch and head. The caller must not
// change the slice.
func (c *Check) Rows() []int { return c.rows }

// rowAttention is an attention that can compute single rows, with the same bits as Forward.
type rowAttention interface {
	At(out attention.Seq[float32], rows []int, q, k, v attention.Seq[float32]) error
}

// Errors runs a over the arguments of the check and returns one estimate per query head, and one for all heads
// together.
func (c *Check) Errors(a attention.Attention[attention.Seq[float32]]) (heads []Estimate, all Estimate, err error) {
	sums, err := c.measure(a, 0, c.k.Heads)
	if err != nil {
		return nil, all, err
	}
	heads, all = estimates(sums)
	return heads, all, nil
}

// ErrorsOf is Errors for an output that has already been computed from the arguments of the check.
func (c *Check) ErrorsOf(out attention.Seq[float32]) (heads []Estimate, all Estimate, err error) {
	if err := out.Check("out"); err != nil {
		return nil, all, err
	}
	if want := (attention.Shape{Batch: c.q.Batch, Heads: c.q.Heads, Len: c.q.Len, Dim: c.v.Dim}); out.Shape != want {
		return nil, all, fmt.Errorf("out is %v, want %v: %w", out.Shape, want, dense.ErrShape)
	}
	heads, all = estimates(c.compare(gathered(out, c.rows), c.exact))
	return heads, all, nil
}

// estimates returns the estimate of each head and of all rows together.
func estimates(sums []errorSums) (heads []Estimate, all Estimate) {
	var total errorSums
	for _, s := range sums {
		heads = append(heads, s.estimate())
		total.merge(s)
	}
	return heads, total.estimate()
}

// measure runs an attention over key/value heads lo to hi−1 alone. It returns one sum per query head of these.
func (c *Check) measure(a attention.Attention[attention.Seq[float32]], lo, hi int) ([]errorSums, error) {
	return c.judge(lo, hi, func(out, q, k, v attention.Seq[float32]) error {
		if at, ok := a.(rowAttention); ok {
			return at.At(out, c.rows, q, k, v)
		}
		whole := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
		_, err := a.Forward(whole, q, k, v)
		gather(out, whole, c.rows)
		return err
	})
}

// judge calls run with the queries, keys and values of key/value heads lo to hi−1. run sets out to the outputs of the
// sampled rows, which judge compares with the exact ones.
func (c *Check) judge(lo, hi int, run func(out, q, k, v attention.Seq[float32]) error) ([]errorSums, error) {
	group := c.q.Heads / max(1, c.k.Heads)
	q, k, v := headRange(c.q, lo*group, hi*group), headRange(c.k, lo, hi), headRange(c.v, lo, hi)
	got := attention.NewSeq[float32](q.Batch, q.Heads, len(c.rows), v.Dim)
	if err := run(got, q, k, v); err != nil {
		return nil, err
	}
	return c.compare(got, headRange(c.exact, lo*group, hi*group)), nil
}

// compare adds up the squared errors of the rows that see a key, for each head.
func (c *Check) compare(got, want attention.Seq[float32]) []errorSums {
	sums := make([]errorSums, got.Heads)
	for h := range sums {
		for b := range got.Batch {
			x, y := got.Head(b, h), want.Head(b, h)
			for i := range c.rows {
				if !c.seen[b][i] {
					continue
				}
				var diff, size float64
				for l, w := range y.Row(i) {
					d := float64(x.Row(i)[l]) - float64(w)
					diff += d * d
					size += float64(w) * float64(w)
				}
				sums[h].add(diff, size, b)
			}
		}
	}
	return sums
}

// headRange returns a view of heads lo to hi−1.
func headRange(s attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	s.Heads = hi - lo
	s.Data = s.Data[min(lo*s.StrideH, len(s.Data)):]
	return s
}

// batch returns a view of batch b.
func batch(s attention.Seq[float32], b int) attention.Seq[float32] {
	s.Batch = 1
	s.Data = s.Data[min(b*s.StrideB, len(s.Data)):]
	return s
}

// cut returns a view of positions lo to hi−1.
func cut(s attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	s.Len = hi - lo
	s.Data = s.Data[min(lo*s.StrideL, len(s.Data)):]
	return s
}

// gathered returns a copy of the given positions of all batches and heads.
func gathered(s attention.Seq[float32], rows []int) attention.Seq[float32] {
	out := attention.NewSeq[float32](s.Batch, s.Heads, len(rows), s.Dim)
	gather(out, s, rows)
	return out
}

// gather is gathered into out.
func gather(out, s attention.Seq[float32], rows []int) {
	for b := range s.Batch {
		for h := range s.Heads {
			from, to := s.Head(b, h), out.Head(b, h)
			for i, r := range rows {
				copy(to.Row(i), from.Row(r))
			}
		}
	}
}
