package parts

import (
	"fmt"

	"github.com/randfeat/randfeat/internal/par"
)

// Span is a range of leaves of a run, Lo to Hi−1.
type Span struct {
	Lo int `json:"lo"`
	Hi int `json:"hi"`
}

func (s Span) String() string { return fmt.Sprintf("leaves %d to %d", s.Lo, s.Hi-1) }

// tree is the order in which leaves are merged. A node of level 0 is a leaf. A node of level l has par.Fan
// consecutive nodes of level l−1 as children; the last node of a level may have fewer. A node's value is the left fold
// of its children: the first child, with the others merged into it one after the other. Floating-point sums depend on
// the order of additions, and this order is fixed, so it does not matter who folds which children.
//
// A part is a prefix of a node that consists of whole children. The parts of workers with neighbouring spans can
// therefore be folded further, and a worker holds at most one open node per level.
type tree struct{ leaves int }

// width is the number of leaves of a full node of a level.
func (tree) width(level int) int {
	n := 1
	for range level {
		n *= par.Fan
	}
	return n
}

// node is the span of the node of a level that contains a leaf.
func (t tree) node(level, leaf int) Span {
	w := t.width(level)
	lo := leaf / w * w
	return Span{lo, min(lo+w, t.leaves)}
}

// root is the level of the node of all leaves.
func (t tree) root() int {
	level := 0
	for t.width(level) < t.leaves {
		level++
	}
	return level
}

// level is the highest level of a node of which s is a prefix that consists of whole children; −1 if there is none, in
// which case s cannot be a part.
func (t tree) level(s Span) int {
	if s.Lo < 0 || s.Lo >= s.Hi || s.Hi > t.leaves {
		return -1
	}
	for level := range t.root() + 1 {
		n, child := t.node(level, s.Lo), t.width(max(level-1, 0))
		if n.Lo != s.Lo || n.Hi < s.Hi {
			if n.Lo != s.Lo {
				return -1
			}
			continue
		}
		if n.Hi != s.Hi {
			if s.Hi%child != 0 {
				return -1
			}
			return level
		}
		// The node is complete. It is a prefix of its parent only if it is the first child.
		if up := t.node(level+1, s.Lo); level == t.root() || up.Lo != s.Lo {
			return level
		}
	}
	return -1
}

// follows reports whether s, a whole node, is the next child of the node of which p is a prefix. Only then may s be
// merged into p: any other order would change the bits.
func (t tree) follows(p, s Span) bool {
	level := t.level(p)
	return level > 0 && p.Hi == s.Lo && t.node(level-1, s.Lo) == s && t.node(level, p.Lo) == t.node(level, s.Lo)
}

// folder merges parts that arrive in order. open holds the incomplete nodes, from left to right.
type folder struct {
	t    tree
	open []*Part
	// out, if not nil, receives parts that cannot be merged here, because earlier siblings of their node are elsewhere.
	out func(*Part) error
}

// add takes the next part in order and merges it into the open nodes as far as possible. A merged node may in turn be
// the next child of the node before it.
func (f *folder) add(p *Part) error {
	for {
		n := len(f.open)
		if n > 0 && f.t.follows(f.open[n-1].span, p.span) {
			top := f.open[n-1]
			if err := top.body.merge(p.body); err != nil {
				return err
			}
			top.span.Hi, top.kernels = p.span.Hi, union(top.kernels, p.kernels)
			p.Free()
			f.open = f.open[:n-1]
			p = top
			continue
		}
		break
	}
	if f.out != nil && len(f.open) == 0 && f.stuck(p.span) {
		return f.out(p)
	}
	f.open = append(f.open, p)
	return nil
}

// stuck reports whether span s is a whole node that can only be merged into a part to its left.
func (f *folder) stuck(s Span) bool {
	level := f.t.level(s)
	return f.t.node(level, s.Lo) == s && level < f.t.root()
}
