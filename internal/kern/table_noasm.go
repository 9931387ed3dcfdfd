//go:build noasm || !(amd64 || arm64)

package kern

// targets is empty: only the reference runs here.
func targets() tables { return tables{} }
