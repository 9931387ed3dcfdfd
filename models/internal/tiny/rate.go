package tiny

import (
	"testing"
	"time"
)

// Rate starts a measurement. The function that it returns reports tokens per second, and per second of processor time
// where that is known.
func Rate(b *testing.B, tokens int) func() {
	start, before := time.Now(), cpu()
	return func() {
		n := float64(b.N * tokens)
		b.ReportMetric(n/time.Since(start).Seconds(), "tokens/s")
		if used := cpu() - before; used > 0 {
			b.ReportMetric(n/used, "tokens/cpu-s")
		}
	}
}
