"""Text: numbers with units (`units`), kernel values (`words`), safe and fitted terminal text
(`terminal`), `glyphs`."""
