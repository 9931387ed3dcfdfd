//go:build !explorer

package explorer

// Embedded is the page that this program carries; nil if it was built without, that is without the tag explorer.
func Embedded() ([]byte, error) { return nil, nil }
