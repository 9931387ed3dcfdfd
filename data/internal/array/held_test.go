package array

import "testing"

func TestMaxHeld(t *testing.T) {
	for file, want := range map[int64]int64{0: 256 << 20, 16 << 20: 256 << 20, 17 << 20: 272 << 20} {
		if got := maxHeld(file); got != want {
			t.Errorf("a file of %d bytes: %d bytes may be held, want %d", file, got, want)
		}
	}
}
