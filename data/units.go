package data

// Unit identifies a part of a table of one or more files: block number Block of file number Shard, both from 0. Files
// are cut into blocks of about Options.UnitBytes, at places that depend only on the contents. Every reader therefore
// sees the same units. Units are ordered by shard, then by block.
type Unit struct {
	Shard int `json:"shard"`
	Block int `json:"block"`
}

// DefaultUnitBytes is the size of a unit.
const DefaultUnitBytes = 32 << 20

// Splitter is a source of one file that can be read block by block. The blocks one after the other contain the rows of
// Open, in the same order.
type Splitter interface {
	Source
	Blocks() int // at least one
	// Block returns a source of the rows of one block, possibly none. It does not depend on other blocks, so it is the
	// same whoever reads them.
	Block(i int) (Source, error)
}

// UnitsOf are the units of a source, in order: those of a table of files, the blocks of a file, or one.
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

// Sums over a table follow one fixed tree, so the result is bit-identical however the work is distributed. A leaf is
// LeafUnits consecutive units, added one after the other to an empty sum. A node is LeafFan consecutive children,
// merged from left to right into the first. There are at most MaxLeaves leaves.
const (
	LeafFan   = 8
	MaxLeaves = 512
)

// LeafUnits is how many consecutive units of a table make up a leaf.
func LeafUnits(units int) int { return max(1, (units+MaxLeaves-1)/MaxLeaves) }

// LeafTree merges leaves that come in order. It holds one node of each level.
type LeafTree[T any] struct {
	Merge func(into, from T) error // from is no longer used then
	Nodes []T                      // by level
	Has   []int                    // how many children a node has; 0: there is none
}

// Add takes the leaf that follows those before.
func (t *LeafTree[T]) Add(leaf T) error {
	for level := 0; ; level++ {
		if level == len(t.Nodes) {
			t.Nodes, t.Has = append(t.Nodes, leaf), append(t.Has, 1)
			return nil
		}
		if t.Has[level]++; t.Has[level] == 1 {
			t.Nodes[level] = leaf
			return nil
		}
		if err := t.Merge(t.Nodes[level], leaf); err != nil {
			return err
		}
		if t.Has[level] < LeafFan {
			return nil
		}
		t.Has[level], leaf = 0, t.Nodes[level]
	}
}

// Root merges what remains and empties the tree; ok is false if there was no leaf.
func (t *LeafTree[T]) Root() (root T, ok bool, err error) {
	nodes, has := t.Nodes, t.Has
	t.Nodes, t.Has = nil, nil
	for level, n := range has {
		switch {
		case n == 0:
		case !ok:
			root, ok = nodes[level], true
		default:
			if err := t.Merge(nodes[level], root); err != nil {
				return root, ok, err
			}
			root = nodes[level]
		}
	}
	return root, ok, nil
}
