package dense

import "testing"

// Whole huge pages, inside the memory, and nothing whole left out.
func TestHugeRange(t *testing.T) {
	for _, p := range []uintptr{0, 1, 8192, hugePage - 64, hugePage, hugePage + 4096, 5*hugePage - 1} {
		for _, n := range []int{hugeFrom, hugeFrom + 1, hugeFrom + 4100, 3*hugePage - 4, 7*hugePage + 12345} {
			lo, hi := hugeRange(p, n)
			if lo < 0 || hi <= lo || hi > n || (p+uintptr(lo))%hugePage != 0 || (hi-lo)%hugePage != 0 ||
				lo >= hugePage || n-hi >= hugePage {
				t.Errorf("%d bytes at %#x: %d to %d", n, p, lo, hi)
			}
		}
	}
}

// Sizes around the bound and off the page grid, whose memory has been used and freed before.
func TestNewLarge(t *testing.T) {
	for _, rows := range []int{1, 1023, 1024, 1025, 1537, 3001} {
		for range 3 {
			m := New[float32](rows, 1024)
			for i, v := range m.Data {
				if v != 0 {
					t.Fatalf("%d rows: entry %d of a new matrix is %g", rows, i, v)
				}
				m.Data[i] = float32(i)
			}
			if last := len(m.Data) - 1; m.Data[0] != 0 || m.Data[last] != float32(last) {
				t.Fatalf("%d rows: written %d, read %g", rows, last, m.Data[last])
			}
		}
	}
}
