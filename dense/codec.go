package dense

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON writes a list of rows; the empty matrix is [].
func (m Matrix[T]) MarshalJSON() ([]byte, error) { return json.Marshal(m.ToRows()) }

// UnmarshalJSON reads a list of equally long rows.
func (m *Matrix[T]) UnmarshalJSON(b []byte) error {
	var rows [][]T
	if err := json.Unmarshal(b, &rows); err != nil {
		return fmt.Errorf("matrix: %w", err)
	}
	v, err := FromRows(rows)
	if err != nil {
		return fmt.Errorf("matrix: %w", err)
	}
	*m = v
	return nil
}
