package randfeat

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
)

// Signed reports whether features have a factor besides their exponential: signs, sines, thresholds. If not, all
// features are positive and given by their exponents, and LogQueries and LogKeys need no values.
func (m *Map[T]) Signed() bool { return m.query.Signed() || m.key.Signed() }

// LogQueries writes the features of queries in the log domain: feature f of row i is value_if·exp(e_if + row_i). The
// part that is common to a row (−|x|²/2) is in row, in float64, so that e keeps its accuracy for large inputs. Zero
// features have value 0 or e = −Inf. If the map is not Signed, values are 1 and value may be the empty matrix. The
// rules for memory, shapes and values are those of Queries.
func (m *Map[T]) LogQueries(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	return m.log(m.query, e, value, row, x, ws)
}

// LogKeys is LogQueries with the map φ2 of keys.
func (m *Map[T]) LogKeys(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	return m.log(m.key, e, value, row, x, ws)
}

// QueriesScaled writes φ1(x_i)_f·exp(col_f − shift_i): features at scales that the caller chooses. A nil col is zero;
// −Inf makes a feature zero. The scales are applied in the log domain, so only the result itself can overflow.
func (m *Map[T]) QueriesScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	ws *Workspace[T]) error {
	return m.scaled(m.query, dst, col, shift, x, ws)
}

// KeysScaled is QueriesScaled with the map φ2 of keys.
func (m *Map[T]) KeysScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	return m.scaled(m.key, dst, col, shift, x, ws)
}

// begin checks the rows x and computes their norms, in a new workspace if ws is nil.
func begin[T dense.Float](m *Map[T], x dense.Matrix[T], ws *Workspace[T]) (_ *Workspace[T], err error) {
	if ws == nil {
		ws = new(Workspace[T])
	}
	ws.nx, err = checkInput(m, "x", x, ws.nx)
	return ws, err
}

// log validates the arguments of LogQueries and LogKeys and computes the features.
func (m *Map[T]) log(s side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	ws, err := begin(m, x, ws)
	if err != nil {
		return err
	}
	if err := checkFeatures(m, "e", e, x.Rows); err != nil {
		return err
	}
	if !value.IsEmpty() || m.Signed() {
		if err := checkFeatures(m, "value", value, x.Rows); err != nil {
			return err
		}
	}
	if err := checkRows("row", row, x.Rows); err != nil {
		return err
	}
	if x.Rows == 0 {
		return nil
	}
	ws.exec.Workers = ws.Workers
	s.Log(e, value, row, x, ws.nx, &ws.exec)
	return nil
}

// scaled validates the arguments of QueriesScaled and KeysScaled and computes the features.
func (m *Map[T]) scaled(s side[T], dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	ws *Workspace[T]) error {
	ws, err := begin(m, x, ws)
	if err != nil {
		return err
	}
	if err := checkFeatures(m, "dst", dst, x.Rows); err != nil {
		return err
	}
	if err := checkScales(m, col, shift, x.Rows); err != nil {
		return err
	}
	if x.Rows == 0 {
		return nil
	}
	ws.exec.Workers = ws.Workers
	s.Scaled(dst, col, shift, x, ws.nx, &ws.exec)
	return nil
}

// checkFeatures checks a matrix with one row of features per input.
func checkFeatures[T dense.Float](m *Map[T], name string, a dense.Matrix[T], rows int) error {
	if a.Rows != rows || a.Cols != m.OutDim() {
		return fmt.Errorf("%s is %d×%d, want %d×%d: %w", name, a.Rows, a.Cols, rows, m.OutDim(), dense.ErrShape)
	}
	if err := a.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// checkScales checks the arguments of QueriesScaled.
func checkScales[T dense.Float](m *Map[T], col []T, shift []float64, rows int) error {
	if col != nil && len(col) != m.OutDim() {
		return fmt.Errorf("col has %d entries for %d features: %w", len(col), m.OutDim(), dense.ErrShape)
	}
	return checkRows("shift", shift, rows)
}

func checkRows(name string, v []float64, rows int) error {
	if len(v) != rows {
		return fmt.Errorf("%s has %d entries for %d rows: %w", name, len(v), rows, dense.ErrShape)
	}
	return nil
}
