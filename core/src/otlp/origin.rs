//! What has sent a record: a resource and a scope, whose columns are the last of each table.

use crate::otlp::fields::Fields;
use crate::otlp::row::Row;
use crate::otlp::value::Attributes;
use crate::parse::Fast;
use crate::protobuf::wire::VARINT;

/// The columns of what a row comes from, `Origin::fill` fills them.
pub const ORIGIN: &str = "mltttmlt";

/// What has sent a record: the resource and the scope.
#[derive(Default)]
pub struct Origin<'a> {
    resource: Attributes,
    service: Option<Vec<u8>>,
    resource_dropped: i64,
    resource_url: &'a [u8],
    name: &'a [u8],
    version: &'a [u8],
    scope: Attributes,
    scope_dropped: i64,
    scope_url: &'a [u8],
}

impl<'a> Origin<'a> {
    pub fn set_resource(&mut self, fields: &Fields<'a>) -> Fast<()> {
        let resource = fields.message(1)?;
        self.resource = Attributes::read(resource.parts(1))?;
        self.service = self.resource.get(b"service.name").map(<[u8]>::to_vec);
        self.resource_dropped = resource.count(2, VARINT);
        self.resource_url = fields.text(3)?;
        Ok(())
    }

    pub fn set_scope(&mut self, fields: &Fields<'a>) -> Fast<()> {
        let scope = fields.message(1)?;
        (self.name, self.version) = (scope.text(1)?, scope.text(2)?);
        self.scope = Attributes::read(scope.parts(3))?;
        self.scope_dropped = scope.count(4, VARINT);
        self.scope_url = fields.text(3)?;
        Ok(())
    }

    pub fn size(&self) -> usize {
        let texts = [self.resource_url, self.name, self.version, self.scope_url];
        self.resource.size() + self.scope.size() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    pub fn service(&self) -> Option<&[u8]> {
        self.service.as_deref()
    }

    pub fn fill(&self, row: &mut Row) -> Fast<()> {
        row.map(&self.resource)?;
        row.long(Some(self.resource_dropped))?;
        row.text(self.resource_url)?;
        row.text(self.name)?;
        row.text(self.version)?;
        row.map(&self.scope)?;
        row.long(Some(self.scope_dropped))?;
        row.text(self.scope_url)
    }
}
