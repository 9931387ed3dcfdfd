package par

// Sums over a table follow one fixed tree, so the result is bit-identical however the work is distributed. A
// leaf is [LeafUnits] consecutive units, added one after the other to an empty sum. A node is Fan consecutive
// children, merged from left to right into the first. There are at most MaxLeaves leaves. These numbers are
// part of every model's bits.
const (
	Fan       = 8
	MaxLeaves = 512
)

// LeafUnits is the number of consecutive units in a leaf, for a table of that many units.
func LeafUnits(units int) int { return max(1, (units+MaxLeaves-1)/MaxLeaves) }

// Tree merges leaves that arrive in order. It holds at most one partial node per level, so memory grows
// with the logarithm of the number of leaves. The fields are exported so that a computation can be saved and
// resumed.
type Tree[T any] struct {
	Merge func(into, from T) error // adds from to into; from is not used afterwards
	Nodes []T                      // one partial node per level
	Has   []int                    // children merged into each node so far; 0: there is none
}

// Add takes the next leaf. A node that is complete becomes a child of the next level.
func (t *Tree[T]) Add(leaf T) error {
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
		if t.Has[level] < Fan {
			return nil
		}
		t.Has[level], leaf = 0, t.Nodes[level]
	}
}

// Root merges the partial nodes and empties the tree; ok is false if there was no leaf. Lower levels hold later
// leaves, so they are merged into higher ones.
func (t *Tree[T]) Root() (root T, ok bool, err error) {
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
