//! Resource templates, as far as telling which URIs one can give (RFC 6570; base protocol §16).
//!
//! Imports nothing.

/// A template with its expressions left open: the literal texts between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<String>);

impl Template {
    /// Reads a template whose scheme is literal, as it must be to be told from others; none of any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut literals = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            let (_expression, after) = after.split_once('}')?;
            literals.push(literal.to_owned());
            rest = after;
        }
        literals.push(rest.to_owned());
        let (scheme, _) = literals.first()?.split_once(':')?;
        (!scheme.is_empty()).then_some(Self(literals))
    }

    /// Says whether expanding the template can give `uri`: its literal texts stand there in their order, at both ends too.
    pub fn gives(&self, uri: &str) -> bool {
        let Some((first, others)) = self.0.split_first() else {
            return false;
        };
        let Some((last, middle)) = others.split_last() else {
            return uri == first;
        };
        let Some(inner) = uri
            .strip_prefix(first.as_str())
            .and_then(|rest| rest.strip_suffix(last.as_str()))
        else {
            return false;
        };
        let after = |rest: &'_ str, literal: &String| Some(rest.split_once(literal.as_str())?.1.to_owned());
        middle
            .iter()
            .filter(|literal| !literal.is_empty())
            .try_fold(inner.to_owned(), |rest, literal| after(&rest, literal))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_what_fits_between_its_literals() {
        let gives = |template: &str, uri: &str| Template::parse(template).is_some_and(|template| template.gives(uri));
        assert!(gives("file:///{path}", "file:///a/b.txt"));
        assert!(gives("db://{table}/rows/{id}", "db://t/rows/7"));
        assert!(gives("test://static/text", "test://static/text"));
        assert!(gives("test://template/{id}/data", "test://template/123/data"));
        assert!(gives("docs:{a}{b}", "docs:x"));
        assert!(!gives("db://{table}/rows/{id}", "db://t/columns/7"));
        assert!(!gives("test://template/{id}/data", "test://template/data"));
        assert!(!gives("test://static/text", "test://static/text2"));
        assert!(!gives("{scheme}://x", "file://x"));
        assert!(!gives("file:///{path", "file:///x"));
        assert!(!gives("aa:{x}a", "aa:"));
    }
}
