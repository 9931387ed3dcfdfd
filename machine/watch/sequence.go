package watch

import "cmp"

// Sequence reads monitors one after the other: the probability that any report of an unchanged stream says changed is
// at most Level, however many there are. Look k is tested at the level Level/(k(k+1)), which sums to Level; the windows
// may overlap, and their dependence does not matter. This holds as far as p-values are exact at such small levels.
type Sequence struct {
	Level float64 // 0 means 0.05
	Looks int     // reports so far
}

// Report is [Monitor.Report] at the level of the next look. A report without a result is no look.
func (s *Sequence) Report(m *Monitor) (*Report, error) {
	k := float64(s.Looks + 1)
	r, err := m.Report(cmp.Or(s.Level, DefaultLevel) / (k * (k + 1)))
	if err == nil {
		s.Looks++
	}
	return r, err
}
