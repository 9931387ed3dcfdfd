package model

import "math"

// CurvesRequest asks for the error of some families along the angle, the length and the number of features.
type CurvesRequest struct {
	TheoryRequest
	Families []string `json:"families"`
}

// Curves are those of a state.
type Curves struct {
	Angle    Plot `json:"angle"`             // the lengths as they are
	Length   Plot `json:"length"`            // both lengths times a factor, the angle as it is
	Features Plot `json:"features"`          // the pair as it is
	Pending  bool `json:"pending,omitempty"` // some are left out: ask again without Quick
}

// Plot is a set of curves over common abscissae.
type Plot struct {
	X      []float64 `json:"x"`
	Series []Series  `json:"series"`
}

// Series is log10 of the mean squared error relative to the squared kernel; null where it is not known, zero or
// infinite.
type Series struct {
	Family string   `json:"family"`
	Y      []Number `json:"y"`
}

const maxFactor = 2 // of both lengths

func (m *Model) curves(r CurvesRequest) (*Curves, error) {
	set, err := m.parse(r.State)
	if err != nil {
		return nil, err
	}
	names := r.Families
	if names == nil {
		names = []string{}
	}
	all, err := m.all(set, names, r.Quick)
	if err != nil {
		return nil, err
	}
	out := &Curves{}
	for i := range 61 {
		out.Angle.X = append(out.Angle.X, float64(3*i))
	}
	for i := range 41 {
		out.Length.X = append(out.Length.X, maxFactor*float64(i)/40)
	}
	for f := float64(MinFeatures); f <= MaxFeatures*1.001; f *= math.Sqrt(math.Sqrt2) {
		out.Features.X = append(out.Features.X, math.Round(f))
	}
	for _, e := range all {
		out.Pending = out.Pending || e.row.Pending
		series := func(p *Plot, at func(v float64) Row) {
			s := Series{Family: e.row.Family}
			for _, v := range p.X {
				y := Number(math.NaN())
				if row := at(v); row.Known {
					y = row.LogMSE
				}
				s.Y = append(s.Y, y)
			}
			p.Series = append(p.Series, s)
		}
		series(&out.Angle, func(v float64) Row {
			x, y := set.pair(r.QueryLen, r.KeyLen, v)
			return e.at(x, y)
		})
		series(&out.Length, func(v float64) Row {
			x, y := set.pair(v*r.QueryLen, v*r.KeyLen, r.Angle)
			return e.at(x, y)
		})
		x, y := set.pair(r.QueryLen, r.KeyLen, r.Angle)
		series(&out.Features, func(v float64) Row { return e.withFeatures(int(v)).at(x, y) })
	}
	return out, nil
}
