//go:build !docs

package main

import "github.com/spf13/cobra"

// addDocsCommand adds nothing: only builds with the tag docs write documents.
func addDocsCommand(*cobra.Command) {}
