package lab

import "slices"

// Section has the checks of one kind, so that a page separates what the paper prints from what follows from a
// formula.
type Section struct {
	Title  string
	Grids  []Grid
	Checks []Check // checks outside of tables
}

// Grid is a table of checks in the layout of the paper's.
type Grid struct {
	Title   string
	Columns []string
	Rows    []GridRow
	Reasons []Reason // why checks of the table miss or are too noisy
}

// GridRow is a row of a Grid. A cell without a check is nil.
type GridRow struct {
	Name  string
	Cells []*Check
}

// Reason is a reason that several checks of a table share.
type Reason struct {
	Verdict Verdict
	Why     string
	Spots   []string
}

var sectionTitles = map[Kind]string{Printed: "Printed in the paper", Stated: "Stated in the paper",
	Formula: "Follows from a formula", Unsaid: "Not in the papers"}

// Sections groups checks by kind, in the order of Kinds.
func Sections(checks []Check) (out []Section) {
	for _, k := range Kinds {
		s := Section{Title: sectionTitles[k]}
		for i, c := range checks {
			switch {
			case c.Source.Kind != k:
			case c.Spot == nil:
				s.Checks = append(s.Checks, c)
			default:
				s.place(&checks[i])
			}
		}
		if len(s.Checks)+len(s.Grids) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// place puts a check into its table. Rows and columns keep the order in which they first appear.
func (s *Section) place(c *Check) {
	at := slices.IndexFunc(s.Grids, func(g Grid) bool { return g.Title == c.Spot.Table })
	if at < 0 {
		at, s.Grids = len(s.Grids), append(s.Grids, Grid{Title: c.Spot.Table})
	}
	g := &s.Grids[at]
	col := slices.Index(g.Columns, c.Spot.Column)
	if col < 0 {
		col, g.Columns = len(g.Columns), append(g.Columns, c.Spot.Column)
		for i := range g.Rows {
			g.Rows[i].Cells = append(g.Rows[i].Cells, nil)
		}
	}
	row := slices.IndexFunc(g.Rows, func(r GridRow) bool { return r.Name == c.Spot.Row })
	if row < 0 {
		row, g.Rows = len(g.Rows), append(g.Rows, GridRow{c.Spot.Row, make([]*Check, len(g.Columns))})
	}
	g.Rows[row].Cells[col] = c
	if c.Why == "" {
		return
	}
	at = slices.IndexFunc(g.Reasons, func(r Reason) bool { return r.Verdict == c.Verdict && r.Why == c.Why })
	if at < 0 {
		at, g.Reasons = len(g.Reasons), append(g.Reasons, Reason{Verdict: c.Verdict, Why: c.Why})
	}
	g.Reasons[at].Spots = append(g.Reasons[at].Spots, c.Spot.Row+", "+c.Spot.Column)
}
