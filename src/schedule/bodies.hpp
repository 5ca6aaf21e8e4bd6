// The bodies of loops, scheduled as the graph around them is. In: an offer that is taken for a node. Out: the payload
// of the step. Each body is scheduled once, however often the graph around it is.
#pragma once
#include <map>

#include "schedule/schedule.hpp"

namespace weft {

class BodyScheduler {
 public:
  BodyScheduler(Device device, const Providers& providers, ScheduleChoices choices)
      : device_(device), providers_(providers), choices_(choices) {}
  std::shared_ptr<Payload> payload(const Node& node, Offer offer);

 private:
  Device device_;
  const Providers& providers_;
  ScheduleChoices choices_;
  std::map<const Node*, BodySchedules> known_;
};

}  // namespace weft
