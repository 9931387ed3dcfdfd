package decoder_test

import (
	"testing"

	"github.com/randfeat/randfeat/models/decoder"
)

// BenchmarkSession reads 512 tokens at once and then one by one.
func BenchmarkSession(b *testing.B) {
	m, err := decoder.New(smollm2(b), decoder.Options{Quantised: true})
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]int32, 512)
	for i := range ids {
		ids[i] = int32(100 + i*7919%48000)
	}
	b.Run("prefill", func(b *testing.B) {
		for b.Loop() {
			s, err := m.NewSession(nil)
			if err == nil {
				_, err = s.Append(ids...)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tokens/s")
	})
	b.Run("decode", func(b *testing.B) {
		base, err := m.NewSession(nil)
		if err == nil {
			_, err = base.Append(ids...)
		}
		if err != nil {
			b.Fatal(err)
		}
		s := base.Fork()
		for b.Loop() {
			if s.Len() == 1024 {
				s = base.Fork()
			}
			if _, err := s.Append(ids[0]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
	})
}
