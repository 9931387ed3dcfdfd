package watch

import (
	"slices"

	"github.com/randfeat/randfeat/data"
)

// mostLevels is the number of levels of a column that are counted one by one. Rarer levels count together.
const mostLevels = 64

// Schema returns the schema by which rows are encoded for a [Reference] and its monitors. It reads the columns of s but
// sees more than a model does: a missing cell has an indicator whether or not the fit had missing cells, levels keep
// their columns whatever code the model gives them, and values are neither clipped nor weighted.
func Schema(s *data.Schema) *data.Schema {
	out := *s
	out.Fields = slices.Clone(s.Fields)
	for i := range out.Fields {
		f := &out.Fields[i]
		f.Missing, f.Code, f.Table, f.Prior, f.Clip, f.Weight = true, "", nil, nil, nil, 0
		if len(f.Levels) > mostLevels {
			f.Levels, f.Other = f.Levels[:mostLevels], true
		}
	}
	return &out
}
