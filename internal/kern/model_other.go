//go:build noasm || !amd64

package kern

// modelTargets is empty: only the reference runs here.
func modelTargets() []*Model { return nil }
