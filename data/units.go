package data

// Unit identifies a part of a table of one or more files: block number Block of file number Shard, both from 0.
// Files are cut into blocks of about [Options].UnitBytes, at places that depend only on the contents. Every
// reader therefore sees the same units. Units are ordered by shard, then by block.
type Unit struct {
	Shard int `json:"shard"`
	Block int `json:"block"`
}

// DefaultUnitBytes is the default size of a unit. Changing it changes the merge tree, and with it the last bits
// of models.
const DefaultUnitBytes = 32 << 20

// Splitter is a source of one file that can be read block by block. Read one after the other, the blocks
// contain the rows of Open, in the same order.
type Splitter interface {
	Source
	Blocks() int // at least one
	// Block returns a source of the rows of block i, possibly none. It does not depend on other blocks, so it
	// is the same on every machine.
	Block(i int) (Source, error)
}

// UnitsOf returns the units of a source, in order: of a table of files, the blocks of a file, or a single one.
func UnitsOf(src Source) []Unit {
	for {
		if t, ok := src.(interface{ Units() []Unit }); ok {
			return t.Units()
		}
		if s, ok := src.(Splitter); ok {
			units := make([]Unit, s.Blocks())
			for i := range units {
				units[i].Block = i
			}
			return units
		}
		w, ok := src.(interface{ Unwrap() Source })
		if !ok {
			return make([]Unit, 1)
		}
		src = w.Unwrap()
	}
}
