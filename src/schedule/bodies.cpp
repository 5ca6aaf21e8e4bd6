#include "schedule/bodies.hpp"

namespace weft {

std::shared_ptr<Payload> BodyScheduler::payload(const Node& node, Offer offer) {
  if (offer.bodies.empty()) return std::move(offer.payload);
  BodySchedules& schedules = known_[&node];
  if (!schedules) {
    std::vector<Schedule> made;
    for (const BodyGraph& body : offer.bodies) {
      made.push_back(make_schedule(body.graph, device_, providers_, choices_));
      plan_memory(made.back(), device_, body.updates);
    }
    schedules = std::make_shared<const std::vector<Schedule>>(std::move(made));
  }
  return offer.with_schedules(schedules);
}

}  // namespace weft
